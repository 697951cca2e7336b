"""Learning answers at the nodes, at the edges or for the whole of graphs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from math import exp, isnan, nan
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from graphut.attention import EdgeLayout
from graphut.attention.layout import layout_from_edges
from graphut.experiments.tasks import GraphTask, LabelledGraph, Vocabularies
from graphut.experiments.tasks.graph_files import asking, read_graphs
from graphut.experiments.training.evaluation import Evaluation, score_batches
from graphut.experiments.training.generation import Answer, PonderedPart
from graphut.experiments.training.learner import Learner, Outcome
from graphut.experiments.wording import counted
from graphut.models import UniversalGraphTransformer
from graphut.models.outputs import GraphOutput
from graphut.nn import EventDriven, Ponder
from graphut.nn.loop_state import FrontierRows

_BATCH_NODES = 20_000
_RANGES = [*pairwise((0, 2, 4, 7, 11, 16, 26, 51, 101, 201, 501, 1001, 10_001, 10**9))]
"""Of depths, each without its end: 0 and 1, 2 and 3, 4 to 6, ..."""

Column = NDArray[np.float64]


def _depth(graph: LabelledGraph) -> NDArray[np.int64]:
    """Return the depth of each node, or -1."""
    return np.full(len(graph.nodes), -1) if graph.depth is None else graph.depth


@dataclass(frozen=True)
class GraphBatch:
    """Graphs as one."""

    layout: EdgeLayout
    nodes: Tensor  # (N,) kinds, or (N, F) features
    positions: Tensor | None  # (N, k)
    labels: Tensor  # by node, by graph or by edge
    asked: Tensor  # (A,), the nodes, or the graphs, that are asked
    depth: Tensor  # (N,), the depth that each node needs; -1 where it is not known

    @classmethod
    def of(cls, graphs: Sequence[LabelledGraph], answer_at: str) -> GraphBatch:
        """Return the union of graphs."""
        sizes = np.array([len(graph.nodes) for graph in graphs])
        start = sizes.cumsum() - sizes
        shifted = [graph.edges + first for graph, first in zip(graphs, start, strict=True)]
        source, target = torch.from_numpy(np.concatenate(shifted, 1))
        nodes, lengths = int(sizes.sum()), torch.from_numpy(sizes)
        layout = layout_from_edges(
            source, target, num_src=nodes, num_dst=nodes, src_lengths=lengths, dst_lengths=lengths
        )
        labels = torch.from_numpy(np.concatenate([graph.labels for graph in graphs]))
        placed = [graph.positions for graph in graphs if graph.positions is not None]
        return cls(
            layout=layout,
            nodes=torch.from_numpy(np.concatenate([graph.nodes for graph in graphs])),
            positions=torch.from_numpy(np.concatenate(placed)) if placed else None,
            labels=labels,
            asked=target[labels == 1].unique()
            if answer_at == "edge"
            else (labels >= 0).argwhere()[:, 0],
            depth=torch.from_numpy(np.concatenate([*map(_depth, graphs)])),
        )

    @property
    def num_known(self) -> int:
        """The number of nodes whose depth is known."""
        return int((self.depth >= 0).sum())

    def run(self, model: UniversalGraphTransformer, **asked: bool) -> GraphOutput:
        """Return the output of a model, with what is asked for as of its `forward`."""
        return model(self.layout, self.nodes, positions=self.positions, **asked)

    def answer_of_node(self, answer_at: str) -> Tensor:
        """Return for each node the number of its answer, or of its graph's; -1 if not asked."""
        graph = torch.repeat_interleave(self.layout.dst_lengths)
        answers = torch.full((len(self.layout.dst_lengths if answer_at == "graph" else graph),), -1)
        answers[self.asked] = torch.arange(len(self.asked))
        return answers[graph] if answer_at == "graph" else answers

    def judge(
        self, model: UniversalGraphTransformer, logits: Tensor, label_smoothing: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """Return, for each that is asked, the cross-entropy in nats, and if it answers right."""
        labels, asked = self.labels.to(logits.device), self.asked.to(logits.device)
        if model.config.answer_at != "edge":
            labels, logits = labels[asked], logits[asked]
            loss = cross_entropy(logits, labels, label_smoothing=label_smoothing, reduction="none")
            return loss, logits.argmax(-1) == labels
        if label_smoothing:
            raise ValueError(
                f"label_smoothing is for classes: where edges answer it is 0, not {label_smoothing}"
            )
        layout = self.layout.to(logits.device)
        _, _, edge = layout.in_edges()
        wrong = labels[edge] == 0
        shares, degrees = logits[edge].exp(), layout.in_degrees
        best = torch.segment_reduce(shares, "max", lengths=degrees)
        best_right = torch.segment_reduce(shares.masked_fill(wrong, 0), "max", lengths=degrees)
        likely = torch.segment_reduce(shares.masked_fill(wrong, 0), "sum", lengths=degrees)
        tiny = torch.finfo(likely.dtype).tiny
        return -likely[asked].clamp_min(tiny).log(), (best_right == best)[asked]

    def judge_depth(
        self, model: UniversalGraphTransformer, states: Tensor, nodes: Tensor
    ) -> Tensor | float:
        """Return the summed cross-entropy of the auxiliary target for states `(A, d)` of nodes."""
        if model.auxiliary is None:
            return 0.0
        depth = self.depth.to(states.device)[nodes]
        is_known = depth >= 0
        target = depth[is_known] % model.config.depth_modulus
        return cross_entropy(model.auxiliary(states[is_known]), target, reduction="sum")


class StepLosses(NamedTuple):
    """Losses that read the states after every step; each is a scalar."""

    answers: Tensor  # of the answers, the mean over the steps that `step_loss` names
    halting: Tensor  # of the halting probabilities
    depth: Tensor  # of the auxiliary target
    change: Tensor  # the penalty on change


def step_losses(
    model: UniversalGraphTransformer,
    batch: GraphBatch,
    steps: Sequence[FrontierRows],
    label_smoothing: float = 0.0,
) -> StepLosses:
    """Return the losses of the states after each step.

    A node counts in each step in which it is active, with the loss of its answer, or of its
    graph's. Its losses are added up and divided by the number of steps that count: `max_steps`, or
    the second half of them. If `step_loss` is "weighted" (arXiv 2107.05407, Eq. 7), the losses of
    its answers have the weights of its states in the output instead. Then the mean is taken over
    the nodes that are asked. The halting probability is trained to predict that the answer is
    right, now or for good, as `halting_target` says; no gradient flows through this target. The
    auxiliary target counts in the same steps as the answers.
    """
    config, answer_of_node = model.config, batch.answer_of_node(model.config.answer_at)
    answer_of_node = answer_of_node.to(model.device)
    layout, states = batch.layout.to(model.device), steps[0].states
    weighted, has_halting = config.step_loss == "weighted", steps[0].probability is not None
    asked = max(1, int((answer_of_node >= 0).sum()))
    first = {"none": len(steps) + 1, "second_half": model.max_steps // 2 + 1}.get(
        config.step_loss, 1
    )
    losses, logits, rights, depths = [states.new_zeros(())], [], [], []
    for number, rows in enumerate(steps, 1):
        is_all = len(rows.nodes) == len(states)
        states = rows.states if is_all else states.index_copy(0, rows.nodes, rows.states)
        if number < first and not has_halting:
            continue
        loss, right = batch.judge(model, model.read_out(layout, states), label_smoothing)
        answer = answer_of_node[rows.nodes]
        here = answer >= 0
        if number >= first:
            loss = loss[answer[here]]
            losses.append((loss * rows.weights[here] if weighted else loss).sum())
            depths.append(batch.judge_depth(model, rows.states, rows.nodes))
        if rows.probability is not None:
            logits.append((torch.logit(rows.probability[here], eps=1e-6), answer[here]))
            rights.append(right)
    counted = max(1, model.max_steps - first + 1)
    if config.halting_target == "stays_right":
        rights = [*accumulate(reversed(rights), torch.logical_and)][::-1]
    halting = sum(
        binary_cross_entropy_with_logits(logit, right[answer].to(logit.dtype), reduction="sum")
        for (logit, answer), right in zip(logits, rights, strict=True)
    )
    zero = states.new_zeros(())
    return StepLosses(
        answers=torch.stack(losses).sum() / (asked if weighted else asked * counted),
        halting=zero + halting / (asked * model.max_steps),
        depth=zero + sum(depths) / (max(1, batch.num_known) * counted),
        change=change_penalty(steps, config.change_scale) if config.change_penalty else zero,
    )


def change_penalty(steps: Sequence[FrontierRows], scale: float) -> Tensor:
    r"""Return the penalty on change of states, which makes waiting nodes come to rest.

    It is the mean over the nodes and the steps after the first of :math:`c / (c + \tau^2)`, where
    :math:`c` is the mean square change of the state of a node (`FrontierRows.change`) and
    :math:`\tau` is the `scale`. Large changes cost at most 1 each, so that a node may change its
    state when news arrives, but changes at every step are costly. This is the Geman-McClure
    function of robust statistics (Geman and McClure, 1987).

    Examples
    --------
    >>> nodes, weights, states = torch.arange(2), torch.ones(2), torch.zeros(2, 8)
    >>> changes = torch.tensor([[9.0, 9.0], [0.0, 1.0], [0.0, 3.0]])
    >>> steps = [FrontierRows(nodes, states, weights, None, change) for change in changes]
    >>> change_penalty(steps, 1.0)  # (0 + 1/2 + 0 + 3/4) / 4
    tensor(0.3125)
    """
    if len(steps) < 2:
        return steps[0].states.new_zeros(())
    change = torch.stack([rows.change for rows in steps[1:] if rows.change is not None])
    return (change / (change + scale**2)).mean()


@dataclass(frozen=True)
class GraphScores:
    """Answers beside the right ones, and the steps of nodes beside those they need.

    The answer for a graph stands at its first node.
    """

    right: Column  # (N,), 1 for a right answer, 0 for a wrong one, NaN for a node that is not asked
    log_probability: Column  # (N,), of the right answer, in nats, or NaN
    steps: Column  # (N,)
    depth: Column  # (N,), NaN where it is not known
    graph: NDArray[np.int64]  # (N,)
    groups: list[str]  # of each graph
    flops: int
    all_flops: int  # if every node had taken all steps
    needed_flops: float  # if every node had stopped after depth + 1 steps; NaN if not all are known
    # With the rule `EventDriven`, of each graph, (G,): its rounds, and whether it came to rest.
    rounds: NDArray[np.int64] | None = None
    quiescent: NDArray[np.bool_] | None = None

    @classmethod
    def joined(cls, parts: Sequence[GraphScores]) -> GraphScores:
        """Return the scores of several batches as one."""
        first = np.cumsum([0, *(len(part.groups) for part in parts)])
        columns = ("right", "log_probability", "steps", "depth")
        flops = ("flops", "all_flops", "needed_flops")
        values: dict[str, Any] = {
            **{name: np.concatenate([getattr(part, name) for part in parts]) for name in columns},
            **{name: sum(getattr(part, name) for part in parts) for name in flops},
        }
        if parts[0].rounds is not None:
            for name in ("rounds", "quiescent"):
                values[name] = np.concatenate([getattr(part, name) for part in parts])
        graph = np.concatenate([p.graph + start for p, start in zip(parts, first, strict=False)])
        return cls(**values, graph=graph, groups=[group for part in parts for group in part.groups])

    def metrics(self) -> dict[str, Any]:
        """Return the metrics of `GraphLearner`."""
        known = ~np.isnan(self.depth)
        depth, steps = self.depth[known], self.steps[known]
        varied = len(set(depth)) > 1 and len(set(steps)) > 1
        wrong = set(self.graph[self.right == 0])
        return {
            "accuracy": float(np.nanmean(self.right)),
            "graph_accuracy": 1 - len(wrong) / len(self.groups),
            "log_probability": float(np.nanmean(self.log_probability)),
            "steps": float(self.steps.mean()),
            "rank_correlation": float(spearmanr(depth, steps)[0]) if varied else None,
            "work_ratio": None if isnan(self.needed_flops) else self.flops / self.needed_flops,
        }

    @property
    def asked(self) -> Column:
        """Return 1 or 0 for each node that is asked: whether its answer is right."""
        return self.right[~np.isnan(self.right)]

    def by_depth(self) -> list[dict[str, Any]]:
        """Return depth, accuracy and steps, as means, of the nodes of each range of depths."""
        deepest = np.nanmax(self.depth, initial=-1)
        return [
            {
                "from": low,
                "to": min(high - 1, int(deepest)),
                "depth": float(self.depth[here].mean()),
                **self._means(here),
            }
            for low, high in _RANGES
            if (here := (self.depth >= low) & (self.depth < high)).any()
        ]

    def by_group(self) -> list[dict[str, Any]]:
        """Return accuracy and steps of the nodes of each group of graphs."""
        groups = np.array(self.groups)
        return [
            {
                "group": name,
                **self._means((groups == name)[self.graph]),
                **self.activity(groups == name),
            }
            for name in sorted(set(self.groups))
        ]

    def activity(self, graphs: NDArray[np.bool_] | slice = slice(None)) -> dict[str, Any]:
        """Return the most rounds of a graph and the share of quiescent graphs, if events ran."""
        if self.rounds is None or self.quiescent is None:
            return {}
        quiescent = float(self.quiescent[graphs].mean())
        return {"rounds": int(self.rounds[graphs].max()), "quiescent": quiescent}

    def _means(self, here: NDArray[np.bool_]) -> dict[str, Any]:
        right = self.right[here & ~np.isnan(self.right)]
        accuracy = float(right.mean()) if right.size else None
        steps = float(self.steps[here].mean())
        return {"nodes": int(here.sum()), "accuracy": accuracy, "steps": steps}


class GraphLearner(Learner[LabelledGraph, GraphTask, UniversalGraphTransformer]):
    """The learner of graphs, with a model whose nodes attend along the graphs' own edges."""

    task_kind = GraphTask
    model_kind = UniversalGraphTransformer
    from_task = ("num_kinds", "num_feats", "classes", "answer_at")
    example: ClassVar[str] = "graph"
    metric_meanings: ClassVar[Mapping[str, str]] = {
        "accuracy": "share of right answers",
        "graph_accuracy": "share of graphs whose answers are all right",
        "log_probability": "mean, in nats, of the right answers",
        "steps": "mean steps of a node",
        "rank_correlation": "Spearman's, of a node's steps and the depth that it needs, if known",
        "work_ratio": "floating-point operations, divided by those of a model in which every node "
        "stops after one step more than the depth that it needs",
    }
    rank_by = ("accuracy",)  # of equally good models the last one is kept, which halts best
    # The geometric mean: nodes go on learning when to halt after all their answers are right.
    target_metric = "probability"
    summary = (
        "{accuracy:.2%} of answers right, {graph_accuracy:.2%} of graphs; mean steps "
        "{steps:.2f}{depth}"
    )

    @staticmethod
    def derived(metrics: Mapping[str, Any]) -> dict[str, Any]:
        """Return the geometric mean of probabilities, and what the summary says about depth."""
        correlation, ratio = metrics["rank_correlation"], metrics["work_ratio"]
        rank = "" if correlation is None else f", rank correlation with depth {correlation:.3f}"
        work = "" if ratio is None else f", work {ratio:.2f} of what is needed"
        return {"depth": rank + work, "probability": exp(metrics["log_probability"])}

    def sizes(self, task: GraphTask) -> dict[str, Any]:
        """Return the numbers of kinds, features and classes, and where the answers are."""
        return {
            "num_kinds": len(task.node_kinds.symbols),
            "num_feats": task.num_feats,
            "classes": len(task.answers.symbols),
            "answer_at": task.answer_at,
        }

    def outcome(
        self, model: UniversalGraphTransformer, batch: list[LabelledGraph], label_smoothing: float
    ) -> Outcome:
        """Return the loss of the answers."""
        union, config = GraphBatch.of(batch, model.config.answer_at), model.config
        reads_steps = config.step_loss != "none" or config.halting_loss > 0
        reads_steps = reads_steps or config.change_penalty > 0 or config.depth_modulus > 0
        output = union.run(model, get_steps=reads_steps)
        loss, right = union.judge(model, output.logits, label_smoothing)
        total = loss.sum() / max(1, len(loss))  # 0 for graphs without labels
        zero = total.new_zeros(())
        by_step = StepLosses(total, zero, zero, zero)
        if output.steps is not None:
            by_step = step_losses(model, union, output.steps, label_smoothing)
        learned, nodes = self._learned(model, union)
        return Outcome(
            loss=total if config.step_loss == "none" else by_step.answers,
            right=right.sum(),
            labels=len(loss),
            learned=learned,
            added={
                "halting": (config.halting_loss * by_step.halting, nodes),
                "depth": (by_step.depth, union.num_known),
            },
            late={"change": (config.change_penalty * by_step.change, len(union.nodes))},
            ponders={"encoder": output.ponder},
        )

    def counts(
        self, model: UniversalGraphTransformer, batch: list[LabelledGraph]
    ) -> dict[str, int]:
        """Count what is asked, and the nodes."""
        union = GraphBatch.of(batch, model.config.answer_at)
        learned, nodes = self._learned(model, union)
        return {
            "loss": learned,
            "halting": nodes,
            "depth": union.num_known,
            "change": len(union.nodes),
            "encoder": len(union.nodes),
        }

    @staticmethod
    def _learned(model: UniversalGraphTransformer, batch: GraphBatch) -> tuple[int, int]:
        """Return of how many things the loss, and that of halting, are the means.

        The loss is the mean over answers; after every step, as halting, over the nodes asked.
        """
        nodes = int((batch.answer_of_node(model.config.answer_at) >= 0).sum())
        return len(batch.asked) if model.config.step_loss == "none" else nodes, nodes

    def evaluate_in_detail(
        self,
        model: UniversalGraphTransformer,
        vocabularies: Vocabularies,
        examples: Sequence[LabelledGraph],
        **options: Any,
    ) -> tuple[Evaluation, dict[str, Any]]:
        """Answer, and compare; the details are by depth and by group, and the operations."""
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
            said = f"{counted(details['rounds'], 'round')} at most"
            said += f", {details['quiescent']:.2%} of graphs at rest"
            evaluation = replace(evaluation, summary=f"{evaluation.summary}, {said}")
        return evaluation, details

    def count_flops(
        self, model: UniversalGraphTransformer, examples: Sequence[LabelledGraph], batch_size: int
    ) -> dict[str, float]:
        """Return nothing: the details of an evaluation have the operations."""
        return {}

    def answers(
        self, model: UniversalGraphTransformer, task: GraphTask, examples: Sequence[LabelledGraph]
    ) -> list[Answer]:
        """Return the number of correct answers to each graph, with the steps of its nodes."""
        return [self._answer(model, task, example) for example in examples]

    @torch.no_grad()
    def _answer(
        self, model: UniversalGraphTransformer, task: GraphTask, example: LabelledGraph
    ) -> Answer:
        """Return the number of correct answers; nodes are named by number and kind."""
        batch = GraphBatch.of([example], model.config.answer_at)
        with model.evaluating():
            output = batch.run(model, get_attention=model.config.layer == "attention")
        right = batch.judge(model, output.logits)[1].tolist()
        names = [str(node) for node in range(len(example.nodes))]
        if example.nodes.dtype == np.int64:
            kinds = task.node_kinds.symbols
            names = [f"{name} {kinds[k]}" for name, k in zip(names, example.nodes, strict=True)]
        if model.config.answer_at != "graph":
            for node, is_right in zip(batch.asked.tolist(), right, strict=True):
                names[node] += "" if is_right else " (wrong)"
        text = f"{sum(right)} of {len(right)} answers are correct"
        steps = output.ponder.steps.tolist()
        part = PonderedPart("encoder", "node", names, names, steps, output.ponder)
        return Answer(text, [part], is_correct=all(right), note=text)

    def generate(self, *args: Any, **options: Any) -> Iterator[Answer]:
        """Raise `ValueError`: a graph is not a text."""
        raise ValueError("a graph cannot be typed: graphut eval FOLDER --data FILE reads graphs")

    def read(
        self, path: str, vocabularies: Vocabularies, config: Any, task: GraphTask
    ) -> list[LabelledGraph]:
        """Return the graphs in a user's file or folder; of nodes with masks, `test_mask` counts."""
        kinds, answers = (vocabularies[name] for name in ("node", "answer"))
        if not answers.symbols:
            raise ValueError(f"{path}: where edges answer, graphs cannot be read from a file")
        files = read_graphs(path)
        at = config.answer_at
        if (files[0].labels is None) != (at == "graph"):
            found = "graphs" if files[0].labels is None else "nodes"
            raise ValueError(f"{path} has labels of {found}, and the run answers for each {at}")
        graphs = [file.labelled(kinds, answers, config.num_feats) for file in files]
        if at == "node":
            pairs = zip(graphs, files, strict=True)
            graphs = [asking(graph, file.asked_in("test")) for graph, file in pairs]
        asked = [graph for graph in graphs if (graph.labels >= 0).any()]
        if not asked:
            raise ValueError(f"{path}: no node or graph has a label, in test_mask, to evaluate on")
        return asked


def score_graphs(model: UniversalGraphTransformer, graphs: Sequence[LabelledGraph]) -> GraphScores:
    """Compare answers with the right ones, from the smallest graph to the largest.

    A graph with the rule `EventDriven` and no `max_rounds` has a limit of 100 rounds and 4 for each
    node of the largest graph, since it needs more rounds than the small graphs of the training.
    """
    largest = max((len(graph.nodes) for graph in graphs), default=1)
    with _enough_rounds(model, 4 * largest + 100):
        found = score_batches(
            partial(_score, model),
            graphs,
            max(1, _BATCH_NODES // largest),
            lambda graph: len(graph.nodes),
            "graphs",
        )
    scores = GraphScores.joined(found)
    if np.isnan(scores.right).all():
        raise ValueError("no node of the graphs has an answer to evaluate on")
    return scores


@contextmanager
def _enough_rounds(model: UniversalGraphTransformer, rounds: int) -> Iterator[None]:
    """Run a `with` block with a limit of rounds, where `EventDriven` has none of its own."""
    rule = model.evaluation_rule
    if not isinstance(rule, EventDriven) or rule.max_rounds:
        yield
        return
    model.evaluation_rule = replace(rule, max_rounds=rounds)
    try:
        yield
    finally:
        model.evaluation_rule = rule


@torch.no_grad()
def _score(model: UniversalGraphTransformer, graphs: Sequence[LabelledGraph]) -> GraphScores:
    batch = GraphBatch.of(graphs, model.config.answer_at)
    with model.evaluating():
        output = batch.run(model)
    loss, right = (each.cpu().numpy() for each in batch.judge(model, output.logits))
    lengths, ponder = batch.layout.dst_lengths, output.ponder
    first_nodes = lengths.cumsum(0) - lengths
    at = first_nodes[batch.asked] if model.config.answer_at == "graph" else batch.asked
    columns = np.full((2, int(lengths.sum())), np.nan)
    columns[:, at.numpy()] = right, -loss
    depth = batch.depth.numpy()
    return GraphScores(
        right=columns[0],
        log_probability=columns[1],
        steps=ponder.steps.cpu().numpy().astype(np.float64),
        depth=np.where(depth < 0, np.nan, depth),
        graph=np.repeat(np.arange(len(graphs)), lengths),
        groups=[graph.group for graph in graphs],
        flops=int(ponder.flops),
        all_flops=int(ponder.all_flops),
        needed_flops=nan if (depth < 0).any() else needed_flops(ponder, torch.from_numpy(depth)),
        rounds=None if ponder.rounds is None else ponder.rounds.cpu().numpy(),
        quiescent=None if ponder.quiescent is None else ponder.quiescent.cpu().numpy(),
    )


def needed_flops(ponder: Ponder, depth: Tensor) -> int:
    """Return the operations of a recurrence in which each node stops after `depth + 1` steps.

    A node that stops before the last one is projected to keys and values once more, as with
    `halted="frozen"`.
    """
    steps, degrees = depth + 1, ponder.layouts[0].in_degrees.cpu()
    projected = steps.sum() + (steps < steps.max()).sum()
    edges = (steps * degrees).sum() * ponder.edge_flops
    return int(steps.sum() * ponder.node_flops + edges + projected * ponder.key_value_flops)
