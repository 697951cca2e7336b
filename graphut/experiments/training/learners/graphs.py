"""Learning answers at the nodes, at the edges or for whole graphs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import exp
from typing import Any, ClassVar

import numpy as np
import torch

from graphut.experiments.tasks import GraphTask, LabelledGraph, Vocabularies
from graphut.experiments.tasks.graph_files import keep_labels, read_graphs
from graphut.experiments.training.evaluation import Evaluation
from graphut.experiments.training.generation import GeneratedText, PonderedPart, steps_table
from graphut.experiments.training.learner import ExampleAnswer, Learner, Outcome
from graphut.experiments.training.learners.graph_batch import GraphBatch, StepLosses, step_losses
from graphut.experiments.training.learners.graph_scores import score_graphs
from graphut.experiments.wording import counted
from graphut.models import UniversalGraphTransformer

_NUM_SHOWN = 3


class GraphLearner(Learner[LabelledGraph, GraphTask, UniversalGraphTransformer]):
    """The learner of tasks on labelled graphs, with a `UniversalGraphTransformer`."""

    task_kind = GraphTask
    model_kind = UniversalGraphTransformer
    from_task = ("num_kinds", "num_feats", "classes", "answer_at")
    example: ClassVar[str] = "graph"
    metric_meanings: ClassVar[Mapping[str, str]] = {
        "accuracy": "share of correct answers",
        "graph_accuracy": "share of graphs whose answers are all correct",
        "log_probability": "mean log-probability of the correct answers, in nats",
        "steps": "mean steps of a node",
        "rank_correlation": "Spearman correlation of the steps of a node and its known depth",
        "work_ratio": "floating-point operations, divided by the operations if every node halted "
        "one step after its depth",
    }
    rank_by = ("accuracy",)  # the last of equally accurate models is kept, which halts best
    # With the geometric mean, training continues after all answers are correct: nodes still learn
    # when to halt.
    target_metric = "probability"
    summary = (
        "{accuracy:.2%} of answers right, {graph_accuracy:.2%} of graphs; mean steps "
        "{steps:.2f}{depth}"
    )

    @staticmethod
    def derived(metrics: Mapping[str, Any]) -> dict[str, Any]:
        """Return the geometric mean of the probabilities, and the summary's words on depth."""
        correlation, ratio = metrics["rank_correlation"], metrics["work_ratio"]
        rank = "" if correlation is None else f", rank correlation with depth {correlation:.3f}"
        work = "" if ratio is None else f", work {ratio:.2f} of what is needed"
        return {"depth": rank + work, "probability": exp(metrics["log_probability"])}

    def sizes(self, task: GraphTask) -> dict[str, Any]:
        """Return the numbers of kinds, features and classes, and the place of the answers."""
        return {
            "num_kinds": len(task.node_kinds.symbols),
            "num_feats": task.num_feats,
            "classes": len(task.answers.symbols),
            "answer_at": task.answer_at,
        }

    def outcome(
        self, model: UniversalGraphTransformer, batch: list[LabelledGraph], label_smoothing: float
    ) -> Outcome:
        """Compute the losses of a batch."""
        union, config = GraphBatch.of(batch, model.config.answer_at), model.config
        reads_steps = config.step_loss != "none" or config.halting_loss > 0
        reads_steps = reads_steps or config.change_penalty > 0 or config.depth_modulus > 0
        output = union.run(model, get_steps=reads_steps)
        loss, correct = union.answer_losses(model, output.logits, label_smoothing)
        total = loss.sum() / max(1, len(loss))  # 0 for graphs without labels
        zero = total.new_zeros(())
        by_step = StepLosses(total, zero, zero, zero)
        if output.steps is not None:
            by_step = step_losses(model, union, output.steps, label_smoothing)
        learned, nodes = self._learned(model, union)
        return Outcome(
            loss=total if config.step_loss == "none" else by_step.answers,
            right=correct.sum(),
            labels=len(loss),
            learned=learned,
            added={
                "halting": (config.halting_loss * by_step.halting, nodes),
                "depth": (by_step.depth, union.num_known_depths),
            },
            late={"change": (config.change_penalty * by_step.change, len(union.nodes))},
            ponders={"encoder": output.ponder},
        )

    def counts(
        self, model: UniversalGraphTransformer, batch: list[LabelledGraph]
    ) -> dict[str, int]:
        """Return the number of terms that each loss averages, without running the model."""
        union = GraphBatch.of(batch, model.config.answer_at)
        learned, nodes = self._learned(model, union)
        return {
            "loss": learned,
            "halting": nodes,
            "depth": union.num_known_depths,
            "change": len(union.nodes),
            "encoder": len(union.nodes),
        }

    @staticmethod
    def _learned(model: UniversalGraphTransformer, batch: GraphBatch) -> tuple[int, int]:
        """Return the number of terms averaged in the task loss and in the halting loss.

        The task loss is a mean over answers, or over labelled nodes if it is taken after every
        step. The halting loss is a mean over labelled nodes.
        """
        nodes = int((batch.answer_of_node(model.config.answer_at) >= 0).sum())
        return len(batch.labelled) if model.config.step_loss == "none" else nodes, nodes

    def evaluate_in_detail(
        self,
        model: UniversalGraphTransformer,
        vocabularies: Vocabularies,
        examples: Sequence[LabelledGraph],
        **options: Any,
    ) -> tuple[Evaluation, dict[str, Any]]:
        """Evaluate a model; the details are operations, and scores by depth and by group."""
        scores = score_graphs(model, examples)
        details = {
            "flops_per_example": scores.flops / len(examples),
            "flops_share": scores.flops / scores.all_flops,
            "by_depth": scores.by_depth(),
            "by_group": scores.by_group(),
            **scores.activity(),
        }
        evaluation = self.evaluation(**scores.metrics())
        if scores.rounds is not None:
            rounds = f"{counted(details['rounds'], 'round')} at most"
            rest = f"{details['quiescent']:.2%} of graphs at rest"
            evaluation = replace(evaluation, summary=f"{evaluation.summary}, {rounds}, {rest}")
        return evaluation, details

    def count_flops(
        self, model: UniversalGraphTransformer, examples: Sequence[LabelledGraph], batch_size: int
    ) -> dict[str, float]:
        """Return nothing, because the details of an evaluation include the operations."""
        return {}

    @torch.no_grad()
    def show(self, model: UniversalGraphTransformer, task: GraphTask) -> Iterator[str]:
        """Yield the number of correct answers and the steps of the nodes, for a few graphs."""
        for graph in task.test[:_NUM_SHOWN]:
            scores = score_graphs(model, [graph])
            nodes = [str(number) for number in range(len(graph.nodes))]
            table = steps_table("node", nodes, scores.steps.astype(int).tolist())
            yield f"{table}\nright   {int(scores.answers.sum())} of {scores.answers.size}"

    @torch.no_grad()
    def answer(
        self, model: UniversalGraphTransformer, task: GraphTask, example: LabelledGraph
    ) -> ExampleAnswer:
        """Return the number of correct answers on a graph; nodes are named by number and kind."""
        batch = GraphBatch.of([example], model.config.answer_at)
        with model.evaluating():
            output = batch.run(model, get_attention=model.config.layer == "attention")
        correct = batch.answer_losses(model, output.logits)[1].tolist()
        names = [str(node) for node in range(len(example.nodes))]
        if example.nodes.dtype == np.int64:
            kinds = task.node_kinds.symbols
            names = [f"{name} {kinds[k]}" for name, k in zip(names, example.nodes, strict=True)]
        if model.config.answer_at != "graph":
            for node, is_correct in zip(batch.labelled.tolist(), correct, strict=True):
                names[node] += "" if is_correct else " (wrong)"
        answer = f"{sum(correct)} of {len(correct)} answers are correct"
        part = PonderedPart("encoder", names, names, output.ponder)
        return ExampleAnswer(answer, "", all(correct), [part])

    def generate(self, *args: Any, **options: Any) -> Iterator[GeneratedText]:
        """Raise `ValueError`, because a graph is not a text."""
        raise ValueError(
            "graphut generate reads texts, not graphs: use graphut eval FOLDER --data FILE"
        )

    def read(
        self, path: str, vocabularies: Vocabularies, config: Any, task: GraphTask
    ) -> list[LabelledGraph]:
        """Read the graphs in a user's file or folder; node labels are restricted to `test_mask`."""
        kinds, answers = (vocabularies[name] for name in ("node", "answer"))
        if not answers.symbols:
            raise ValueError(f"{path}: graphs with answers at edges cannot be read from a file")
        files = read_graphs(path)
        at = config.answer_at
        if (files[0].labels is None) != (at == "graph"):
            found = "graphs" if files[0].labels is None else "nodes"
            raise ValueError(f"{path} has labels of {found}, but the run answers for each {at}")
        graphs = [file.labelled(kinds, answers, config.num_feats) for file in files]
        if at == "node":
            pairs = zip(graphs, files, strict=True)
            graphs = [keep_labels(graph, file.mask_of("test")) for graph, file in pairs]
        labelled = [graph for graph in graphs if (graph.labels >= 0).any()]
        if not labelled:
            raise ValueError(f"{path}: no node or graph has a label in test_mask to evaluate on")
        return labelled
