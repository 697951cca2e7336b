"""Training and evaluation of models that classify the nodes or edges of graphs, or whole graphs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import exp
from statistics import fmean
from typing import Any, ClassVar

import numpy as np
import torch

from graphut.experiments.messages import is_share, percent
from graphut.experiments.tasks import GraphTask, LabelledGraph, Vocabulary
from graphut.experiments.tasks.graph_files import read_graphs
from graphut.experiments.tasks.raw_graph import RawGraph, keep_labels
from graphut.experiments.training.evaluation import Evaluation
from graphut.experiments.training.generation import Answer, Choice, PonderedPart
from graphut.experiments.training.learners import Learner, Outcome
from graphut.experiments.training.learners.graph_batch import GraphBatch, StepLosses, step_losses
from graphut.experiments.training.learners.graph_scores import score_graphs
from graphut.models import UniversalGraphTransformer
from graphut.models.graph_inputs import until_quiescent
from graphut.models.outputs import GraphOutput, GraphPrediction

_LISTED = 30  # nodes, at most, whose steps are listed one by one


class GraphLearner(Learner[LabelledGraph, GraphTask, UniversalGraphTransformer]):
    """Trains and evaluates models on graph tasks; nodes attend along the edges of a graph."""

    model_kind = UniversalGraphTransformer
    example: ClassVar[str] = "graph"
    metric_meanings: ClassVar[Mapping[str, str]] = {
        "accuracy": "share of correct answers: classes, edges, or values within half a standard "
        "deviation of the training labels",
        "graph_accuracy": "share of graphs without a wrong answer, of several with many answers",
        "log_probability": "mean, in nats, of the correct answers; for values minus the mean "
        "squared error, in standard deviations",
        "steps": "mean steps of a node",
        "rank_correlation": "Spearman's, between the steps of a node and the depth that it needs",
        "work_ratio": "floating-point operations, divided by those if each node stopped one step "
        "after the depth that it needs",
        "auc": "area under the ROC curve, the mean over the classes, each against the others",
        "mae": "mean absolute error of the values",
        "r2": "share of the variance of the values that is explained",
    }
    rank_by = ("rank",)
    target_metric = "score"
    summary = "{measured}"

    @staticmethod
    def derived(metrics: Mapping[str, Any]) -> dict[str, Any]:
        """Compute `rank`, greater for a better model, `score` and the summary line.

        Among equally accurate models, the last one halts best. The score is the geometric mean of
        the probabilities: nodes still learn when to halt after all their answers are correct.
        """
        rank, score = metrics["accuracy"], exp(metrics["log_probability"])
        if metrics["mae"] is not None:
            rank, score = metrics["log_probability"], metrics["r2"] or 0.0
        measured = ", ".join(
            f"{name.replace('_', ' ')} {percent(x) if is_share(name) else f'{x:.4g}'}"
            for name, x in metrics.items()
            if x is not None
        )
        return {"rank": rank, "score": score, "measured": measured}

    def prepare(self, task: GraphTask) -> None:
        """Store mean and standard deviation of the training labels in a model for values."""
        if self.model.config.answer_kind != "values":
            return
        labels = [graph.labels[graph.has_label] for graph in task.train(0, 0)]
        values = torch.from_numpy(np.concatenate(labels).astype(np.float64))
        scale = values.std(0, correction=0)
        self.model.value_mean.copy_(values.mean(0))
        self.model.value_scale.copy_(torch.where(scale > 0, scale, 1.0))

    def outcome(self, batch: list[LabelledGraph], label_smoothing: float) -> Outcome:
        model, config = self.model, self.model.config
        union = GraphBatch.of(batch, config.answer_at)
        weights = (config.halting_loss, config.change_penalty, config.depth_modulus)
        output = union.run(model, get_steps=config.step_loss != "none" or any(weights))
        loss, correct = union.judge(model, output.logits, label_smoothing)
        total = loss.sum() / max(1, len(loss))  # 0 for graphs without labels
        zero = total.new_zeros(())
        by_step = StepLosses(total, zero, zero, zero)
        if output.steps is not None:
            by_step = step_losses(model, union, output.steps, label_smoothing)
        learned = int((union.answer_of_node(config.answer_at) >= 0).sum())
        # Losses at every step average nodes; the loss at the end averages answers.
        average = (total, len(loss)) if config.step_loss == "none" else (by_step.answers, learned)
        return Outcome(
            loss=average[0],
            correct=correct.sum(),
            labels=len(loss),
            learned=average[1],
            added={
                "halting": (config.halting_loss * by_step.halting, learned),
                "depth": (by_step.depth, union.num_known),
            },
            late={"change": (config.change_penalty * by_step.change, len(union.nodes))},
            ponders={"encoder": output.ponder},
        )

    def evaluate_in_detail(
        self, examples: Sequence[LabelledGraph], **options: Any
    ) -> tuple[Evaluation, dict[str, Any]]:
        """Return metrics, and details: accuracy by needed steps, and FLOPs."""
        scores = score_graphs(self.model, examples)
        details = {
            "flops_per_example": scores.flops / len(examples),
            "flops_share": scores.flops / scores.all_flops,
            "by_depth": scores.by_depth(),
        }
        if scores.rounds is not None and scores.quiescent is not None:  # with `EventDriven`
            details["rounds"] = int(scores.rounds.max())
            details["quiescent"] = float(scores.quiescent.mean())
        return self.evaluation(**scores.metrics(self.model.config.answer_kind)), details

    def count_flops(self, examples: Sequence[LabelledGraph], batch_size: int) -> dict[str, float]:
        """Return an empty dictionary, because `evaluate_in_detail` already counts the FLOPs."""
        return {}

    @torch.no_grad()
    def answer(self, example: LabelledGraph) -> Answer:
        model, config = self.model, self.model.config
        batch = GraphBatch.of([example], config.answer_at)
        has_attention = config.layer == "attention"
        with model.evaluating(), until_quiescent(model, len(example.nodes)):
            output = batch.run(model, get_attention=has_attention, get_steps=True)
        correct_answers = batch.judge(model, output.logits)[1].tolist()
        names = [*map(str, example.ids or range(len(example.nodes)))]
        choices = []
        if config.answer_kind == "class" and config.answer_at != "edge":
            choices = self._choices(example, batch.labelled.tolist(), output, names)
        if example.nodes.dtype == np.int64:
            kinds = self.vocabularies["node"].symbols
            names = [f"{name} {kinds[k]}" for name, k in zip(names, example.nodes, strict=True)]
        if config.answer_at != "graph":
            for node, is_correct in zip(batch.labelled.tolist(), correct_answers, strict=True):
                names[node] += "" if is_correct else " (wrong)"
        text = f"{sum(correct_answers)} of {len(correct_answers)} answers are correct"
        steps = output.ponder.steps.tolist()
        is_listed = len(names) <= _LISTED
        part = PonderedPart("encoder", "node", names, names, steps, output.ponder, is_listed)
        score = fmean(correct_answers) if correct_answers else None
        return Answer(text, [part], "", all(correct_answers), text, score, choices)

    def _choices(
        self, example: LabelledGraph, labelled: Iterable[int], output: GraphOutput, names: list[str]
    ) -> list[Choice]:
        """Return the classes of the labelled nodes, or of the graph, beside their labels."""
        [found] = self.model.predictions_of([example], output)
        classes, steps, choices = self.vocabularies["answer"].symbols, output.ponder.steps, []
        if self.model.config.answer_at == "graph":
            names, steps = ["graph"], steps.max()[None]
        assert found.probabilities is not None
        for node in labelled:
            label, shares = example.labels[node], found.probabilities[node]
            both = shares.max().item(), shares[label].item()
            row = names[node], classes[label], found.labels[node], *both, int(steps[node])
            choices.append(Choice(*row))
        return choices

    def read(self, path: str, task: GraphTask) -> list[LabelledGraph]:
        """Read graphs from a file or folder; drop labels outside of its `test_mask`, if any."""
        if (graphs := task.read(path)) is not None:
            return graphs
        config, answers = self.model.config, self.vocabularies["answer"]
        if not answers.symbols:
            raise ValueError(f"{path}: where edges answer, labels cannot be read from a file")
        files = read_graphs(path, config.answer_kind)
        at = config.answer_at
        if files[0].by_node != (at == "node"):
            level = "nodes" if files[0].by_node else "graphs"
            raise ValueError(f"{path} has labels of {level}, and the run answers for each {at}")
        if any(file.masks for file in files):  # then a graph without masks is not used
            files = [file for file in files if file.masks]
        pairs = zip(self._labelled(files, answers), files, strict=True)
        graphs = [keep_labels(graph, file.label_mask("test")) for graph, file in pairs]
        labelled = [graph for graph in graphs if graph.has_label.any()]
        if not labelled:
            raise ValueError(f"{path}: no node or graph has a label, in test_mask, to evaluate on")
        return labelled

    def prediction_rows(self, files: Sequence[RawGraph]) -> Iterator[dict[str, Any]]:
        """Yield a table row (a dictionary) for each node or graph of the files, in order.

        Its steps are of the node, or the mean over the nodes of the graph.
        """
        model, at = self.model, self.model.config.answer_at
        if at == "edge":
            raise ValueError("the model chooses edges: load it in Python, and call its predict")
        graphs = self._labelled(files, None)
        for file, found in zip(files, model.predict(graphs), strict=True):
            columns: dict[str, Any] = {"node": file.graph.ids} if at == "node" else {}
            columns |= self._answer_columns(found)
            columns["steps"] = found.steps if at == "node" else found.steps.double().mean()[None]
            lists = (x.tolist() if isinstance(x, torch.Tensor) else x for x in columns.values())
            for row in zip(*lists, strict=True):
                yield {"graph": file.name, **dict(zip(columns, row, strict=True))}

    def _answer_columns(self, found: GraphPrediction) -> dict[str, Any]:
        """Return a column for each class, label or value, and one for the likeliest class."""
        config, shares = self.model.config, found.probabilities
        names = self.model.class_names or [*map(str, range(config.classes))]
        if shares is None:
            assert found.values is not None
            titles = ["value"] if len(names) == 1 else [f"value_{name}" for name in names]
            return dict(zip(titles, found.values.T, strict=True))
        columns = {f"probability_{n}": x for n, x in zip(names, shares.T, strict=True)}
        return {"class": [names[k] for k in shares.argmax(1).tolist()], **columns}

    def _labelled(
        self, files: Sequence[RawGraph], answers: Vocabulary | None
    ) -> list[LabelledGraph]:
        """Return graphs with indices for the names that the model knows."""
        config, kinds = self.model.config, self.model.kind_names or self.model.config.num_kinds
        sizes = config.num_feats, config.edge_feats
        return [file.labelled(kinds, answers, *sizes) for file in files]
