"""Batches of labelled graphs, and the losses of a model on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from graphut.experiments.tasks import LabelledGraph
from graphut.models import UniversalGraphTransformer
from graphut.models.graph_inputs import JoinedGraphs
from graphut.models.outputs import GraphOutput
from graphut.nn.loop import FrontierRows


@dataclass(frozen=True)
class GraphBatch(JoinedGraphs):
    """The disjoint union of labelled graphs, as a batch."""

    labels: Tensor  # by node, by graph or by edge: see `LabelledGraph`
    labelled: Tensor  # (A,) nodes, or graphs, that have a label
    depth: Tensor  # (N,) steps that each node needs, or -1 if unknown

    @classmethod
    def of(cls, graphs: Sequence[LabelledGraph], answer_at: str) -> GraphBatch:
        """Return the union of graphs; `answer_at` is what has labels: "node", "edge" or "graph"."""
        has_label = np.concatenate([graph.has_label for graph in graphs])
        depths = [np.full(len(g.nodes), -1) if g.depth is None else g.depth for g in graphs]
        batch = cls.join(
            graphs,
            labels=torch.from_numpy(np.concatenate([graph.labels for graph in graphs])),
            labelled=torch.from_numpy(np.flatnonzero(has_label)),
            depth=torch.from_numpy(np.concatenate(depths)),
        )
        if answer_at != "edge":
            return batch
        target, _, edge = batch.layout.in_edges()
        return replace(batch, labelled=target[batch.labels[edge] == 1].unique())

    @property
    def num_known(self) -> int:
        """The number of nodes whose `depth` is known."""
        return int((self.depth >= 0).sum())

    def run(self, model: UniversalGraphTransformer, **options: bool) -> GraphOutput:
        """Run a model on the batch; `options` are keyword arguments of its `forward`."""
        return model(self.layout, self.nodes, **self.options, **options)

    def answer_of_node(self, answer_at: str) -> Tensor:
        """Return the index of each node, or its graph, in `labelled`, `(N,)`, or -1."""
        graph = torch.repeat_interleave(self.layout.dst_lengths)
        answers = torch.full((len(self.layout.dst_lengths if answer_at == "graph" else graph),), -1)
        answers[self.labelled] = torch.arange(len(self.labelled))
        return answers[graph] if answer_at == "graph" else answers

    def judge(
        self, model: UniversalGraphTransformer, logits: Tensor, label_smoothing: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """Return the loss of labelled nodes or graphs, `(A,)`, and a mask of correct predictions.

        The loss is the cross-entropy in nats. For numbers ("values"), it is the mean squared error,
        in standard deviations of the training labels, and an answer is correct if its error is
        below half a standard deviation. If edges have labels, each labelled node chooses one of its
        in-edges, and several may be correct.
        """
        labels, rows = self.labels.to(logits.device), self.labelled.to(logits.device)
        if model.config.answer_at != "edge":
            logits, labels = logits[rows], labels[rows]
            if model.config.answer_kind == "class":
                smoothing, is_correct = label_smoothing, logits.argmax(-1) == labels
                loss = cross_entropy(logits, labels, label_smoothing=smoothing, reduction="none")
                return loss, is_correct
            error = (logits - labels) / model.value_scale
            return error.square().mean(1), (error.abs() < 0.5).all(1)
        layout = self.layout.to(logits.device)
        _, _, edge = layout.in_edges()
        is_wrong = labels[edge] == 0
        shares, degrees = logits[edge].exp(), layout.in_degrees
        likely = torch.segment_reduce(shares.masked_fill(is_wrong, 0), "sum", lengths=degrees)
        tiny = torch.finfo(likely.dtype).tiny
        # Equal states have equal logits: a tie of a correct and a wrong edge is no answer.
        best_correct, best_wrong = (
            torch.segment_reduce(shares.masked_fill(masked_edges, -1), "max", lengths=degrees)
            for masked_edges in (is_wrong, ~is_wrong)
        )
        return -likely[rows].clamp_min(tiny).log(), (best_correct > best_wrong)[rows]


class StepLosses(NamedTuple):
    """Scalar losses that are computed from the states after every step."""

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
    """Return losses that are computed from the states after each step.

    The loss of the answers, and of the auxiliary target, is a mean over steps and over the nodes
    with a label (or in a graph with a label). A halted node adds 0 to later steps: the sum over
    steps is divided by `max_steps`. With `step_loss="second_half"`, only the second half of the
    steps counts. With `"known"`, a node adds 0 before step `2 * depth + 2`, so that it does not
    learn to guess. With `"weighted"` (arXiv 2107.05407, Eq. 7), the losses are summed with the
    weights that the states have in the output.

    The halting probability learns whether the answer after the step is correct, or, with
    `halting_target="stays_right"`, also after all later steps; the target has no gradient.
    """
    config, answer_of_node = model.config, batch.answer_of_node(model.config.answer_at)
    answer_of_node = answer_of_node.to(model.device)
    layout, states = batch.layout.to(model.device), steps[0].states
    read_out = partial(model.read_out, layout, edge_feats=batch.edge_feats)
    weighted, has_halting = config.step_loss == "weighted", steps[0].probability is not None
    count = max(1, int((answer_of_node >= 0).sum()))
    first = {"none": len(steps) + 1, "second_half": model.max_steps // 2 + 1}.get(
        config.step_loss, 1
    )
    depth_of = batch.depth.to(model.device)
    losses, logits, correct_by_step, depths = [states.new_zeros(())], [], [], []
    for number, rows in enumerate(steps, 1):
        is_all = len(rows.nodes) == len(states)
        states = rows.states if is_all else states.index_copy(0, rows.nodes, rows.states)
        if number < first and not has_halting:
            continue
        loss, is_correct = batch.judge(model, read_out(states), label_smoothing)
        answer = answer_of_node[rows.nodes]
        has_label = answer >= 0
        if number >= first:
            loss = loss[answer[has_label]]
            if config.step_loss == "known":
                loss = loss * (number >= 2 * depth_of[rows.nodes[has_label]] + 2)
            losses.append((loss * rows.weights[has_label] if weighted else loss).sum())
            if model.auxiliary is not None:  # learns the known depths, modulo a number
                depth = depth_of[rows.nodes]
                target = depth[depth >= 0] % config.depth_modulus
                guess = model.auxiliary(rows.states[depth >= 0])
                depths.append(cross_entropy(guess, target, reduction="sum"))
        if rows.probability is not None:
            logits.append((torch.logit(rows.probability[has_label], eps=1e-6), answer[has_label]))
            correct_by_step.append(is_correct)
    num_steps = max(1, model.max_steps - first + 1)
    if config.halting_target == "stays_right":
        correct_by_step = [*accumulate(reversed(correct_by_step), torch.logical_and)][::-1]
    halting = sum(
        binary_cross_entropy_with_logits(logit, is_correct[answer].to(logit.dtype), reduction="sum")
        for (logit, answer), is_correct in zip(logits, correct_by_step, strict=True)
    )
    zero = states.new_zeros(())
    return StepLosses(
        answers=torch.stack(losses).sum() / (count if weighted else count * num_steps),
        halting=zero + halting / (count * model.max_steps),
        depth=zero + sum(depths) / (max(1, batch.num_known) * num_steps),
        change=change_penalty(steps, config.change_scale) if config.change_penalty else zero,
    )


def change_penalty(steps: Sequence[FrontierRows], scale: float) -> Tensor:
    r"""Return a penalty on changes of states, so that nodes learn to keep their states.

    It is the mean, over all nodes and all steps but the first, of :math:`c / (c + \tau^2)`, where
    :math:`c` is the mean square change of a state (`FrontierRows.change`; 0 if the node does not
    compute) and :math:`\tau` is the `scale` (Geman and McClure, 1987). A large change costs at most
    1: a node may change when its in-neighbours do, but changes at every step are costly.
    """
    if len(steps) < 2:
        return steps[0].states.new_zeros(())
    change = torch.cat([rows.change for rows in steps[1:]])
    return (change / (change + scale**2)).sum() / (len(steps[0].nodes) * (len(steps) - 1))
