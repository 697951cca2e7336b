"""Batches of labelled graphs, and the losses of a model on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from graphut.attention import EdgeLayout
from graphut.attention.layout import layout_from_edges
from graphut.experiments.tasks import LabelledGraph
from graphut.models import UniversalGraphTransformer
from graphut.models.outputs import GraphOutput
from graphut.nn.loop_state import FrontierRows


@dataclass(frozen=True)
class GraphBatch:
    """The disjoint union of several labelled graphs."""

    layout: EdgeLayout
    nodes: Tensor  # (N,) kinds, or (N, F) features
    positions: Tensor | None  # (N, k)
    labels: Tensor  # of nodes, of graphs or of edges
    labelled: Tensor  # (A,), ids of the nodes, or of the graphs, that have a label
    depth: Tensor  # (N,), depth that each node needs; -1 if it is not known

    @classmethod
    def of(cls, graphs: Sequence[LabelledGraph], answer_at: str) -> GraphBatch:
        """Build the union of graphs with answers at the "node", the "edge" or the "graph"."""
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
        depth = [np.full(len(g.nodes), -1) if g.depth is None else g.depth for g in graphs]
        return cls(
            layout=layout,
            nodes=torch.from_numpy(np.concatenate([graph.nodes for graph in graphs])),
            positions=torch.from_numpy(np.concatenate(placed)) if placed else None,
            labels=labels,
            labelled=target[labels == 1].unique()
            if answer_at == "edge"
            else (labels >= 0).argwhere()[:, 0],
            depth=torch.from_numpy(np.concatenate(depth)),
        )

    @property
    def num_known_depths(self) -> int:
        """The number of nodes whose depth is known."""
        return int((self.depth >= 0).sum())

    def run(self, model: UniversalGraphTransformer, **options: bool) -> GraphOutput:
        """Call a model on the batch; the options are arguments of its `forward`."""
        return model(self.layout, self.nodes, positions=self.positions, **options)

    def answer_of_node(self, answer_at: str) -> Tensor:
        """Return `(N,)` indices into `labelled`: of the node, or of its graph; -1 for no label."""
        graph = torch.repeat_interleave(self.layout.dst_lengths)
        answers = torch.full((len(self.layout.dst_lengths if answer_at == "graph" else graph),), -1)
        answers[self.labelled] = torch.arange(len(self.labelled))
        return answers[graph] if answer_at == "graph" else answers

    def answer_losses(
        self, model: UniversalGraphTransformer, logits: Tensor, label_smoothing: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """Return `(A,)` cross-entropies in nats, and whether each answer is correct.

        The answer of a node at its in-edges may have several correct edges. Its loss is the
        negative logarithm of their total probability.
        """
        labels, labelled = self.labels.to(logits.device), self.labelled.to(logits.device)
        if model.config.answer_at != "edge":
            labels, logits = labels[labelled], logits[labelled]
            loss = cross_entropy(logits, labels, label_smoothing=label_smoothing, reduction="none")
            return loss, logits.argmax(-1) == labels
        if label_smoothing:
            raise ValueError(
                f"label_smoothing must be 0 for answers at edges, but it is {label_smoothing}"
            )
        layout = self.layout.to(logits.device)
        _, _, edge = layout.in_edges()
        probability, degrees = logits[edge].exp(), layout.in_degrees
        correct = probability.masked_fill(labels[edge] == 0, 0)
        best = torch.segment_reduce(probability, "max", lengths=degrees)
        best_correct = torch.segment_reduce(correct, "max", lengths=degrees)
        total = torch.segment_reduce(correct, "sum", lengths=degrees)[labelled]
        tiny = torch.finfo(total.dtype).tiny
        return -total.clamp_min(tiny).log(), (best_correct == best)[labelled]

    def depth_loss(
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
    """Scalar losses that read the states after every step."""

    answers: Tensor  # mean over the steps that the option `step_loss` selects
    halting: Tensor  # of the halting probabilities
    depth: Tensor  # of the auxiliary target
    change: Tensor  # penalty on change


def step_losses(
    model: UniversalGraphTransformer,
    batch: GraphBatch,
    steps: Sequence[FrontierRows],
    label_smoothing: float = 0.0,
) -> StepLosses:
    """Compute the losses of the states after each step.

    The loss of the answers sums over the steps that `step_loss` selects and over the active nodes
    of each step. A node contributes the loss of its answer, or of the answer of its graph. The sum
    is divided by the number of labelled nodes and of selected steps. With `step_loss` "weighted"
    (arXiv 2107.05407, Eq. 7), the loss of a node in a step is multiplied by the weight of its state
    in the output instead of being divided by the number of steps.

    The halting probability is trained to predict that the answer is correct in this step
    (`halting_target` "right"), or in this and all later steps ("stays_right"). The target has no
    gradient. The auxiliary target counts in the same steps as the answers.
    """
    config, answer_of_node = model.config, batch.answer_of_node(model.config.answer_at)
    answer_of_node = answer_of_node.to(model.device)
    layout, states = batch.layout.to(model.device), steps[0].states
    weighted, has_halting = config.step_loss == "weighted", steps[0].probability is not None
    labelled = max(1, int((answer_of_node >= 0).sum()))
    first = {"none": len(steps) + 1, "second_half": model.max_steps // 2 + 1}.get(
        config.step_loss, 1
    )
    losses, logits, corrects, depths = [states.new_zeros(())], [], [], []
    for number, rows in enumerate(steps, 1):
        is_all = len(rows.nodes) == len(states)
        states = rows.states if is_all else states.index_copy(0, rows.nodes, rows.states)
        if number < first and not has_halting:
            continue
        loss, correct = batch.answer_losses(model, model.read_out(layout, states), label_smoothing)
        answer = answer_of_node[rows.nodes]
        has_label = answer >= 0
        if number >= first:
            loss = loss[answer[has_label]]
            losses.append((loss * rows.weights[has_label] if weighted else loss).sum())
            depths.append(batch.depth_loss(model, rows.states, rows.nodes))
        if rows.probability is not None:
            logits.append((torch.logit(rows.probability[has_label], eps=1e-6), answer[has_label]))
            corrects.append(correct)
    num_steps = max(1, model.max_steps - first + 1)
    if config.halting_target == "stays_right":
        corrects = [*accumulate(reversed(corrects), torch.logical_and)][::-1]
    halting = sum(
        binary_cross_entropy_with_logits(logit, correct[answer].to(logit.dtype), reduction="sum")
        for (logit, answer), correct in zip(logits, corrects, strict=True)
    )
    zero = states.new_zeros(())
    return StepLosses(
        answers=torch.stack(losses).sum() / (labelled if weighted else labelled * num_steps),
        halting=zero + halting / (labelled * model.max_steps),
        depth=zero + sum(depths) / (max(1, batch.num_known_depths) * num_steps),
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
