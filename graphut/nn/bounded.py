"""The recurrence over a frontier whose size the host need not know: what a GPU does.

Rows of the active nodes are packed at the front of tensors that may be longer. How many there are
is counted on the device; the host only has a bound, an older count that has arrived meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import pad

from graphut.nn.attention import MultiHeadAttention
from graphut.nn.frontier import Frontier, Harvest
from graphut.nn.surroundings import GraphSurroundings
from graphut.nn.tally import Tally
from graphut.nn.transition import PositionwiseTransition, Transition
from graphut.nn.watch import Watch

if TYPE_CHECKING:
    from graphut.nn.recurrence import AdaptiveRecurrence


def can_be_bounded(layer: AdaptiveRecurrence, around: GraphSurroundings, feat: Tensor) -> bool:
    """Whether all attention of a recurrence takes counts that only the device knows."""
    step = layer.step_of(1)
    if not step.attention.takes_counts(around.layout, feat):
        return False
    if step.cross_attention is None or around.cross_layout is None:
        return True
    return step.cross_attention.takes_counts(around.cross_layout, feat)


def run_bounded(
    layer: AdaptiveRecurrence,
    around: GraphSurroundings,
    feat: Tensor,
    place: Tensor | None,
    nodes: int,
    watch: Watch,
) -> tuple[Tensor, Tensor, Tensor]:
    """Output, steps and remainder of the first `nodes` rows, without a look at any number."""
    frontier = BoundedFrontier(feat, place, nodes)
    seen = _Counted(around, feat.shape[0])
    tally, harvest = Tally.start(layer.rule(), feat[:nodes]), Harvest()
    for step in range(1, layer.max_steps + 1):
        seen.count = frontier.count
        before = layer.show(seen, frontier, step)
        state = layer.step_of(step).update(before, seen)
        probability = layer.probability(before, state, readable(frontier.nodes, nodes), step)
        watch.probability(probability, frontier.nodes, step)
        halts, left = tally.add(state, probability, step)
        active = frontier.nodes < frontier.nobody
        leaving = frontier.nodes.masked_fill(~(active & halts), nodes)
        harvest.gather(leaving, tally.out, left, step)
        if step == layer.max_steps:
            break
        order, count = active_first(active & ~halts)
        bound = watch.left(count)
        if not bound:
            break
        stay = order[:bound]
        tally.keep(stay)
        frontier.shrink(state, stay, count)
    return harvest.in_order(nodes)


def active_first(active: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of a mask in a new order, `True` ones first, and how many these are.

    Examples
    --------
    >>> active_first(torch.tensor([False, True, False, True]))
    (tensor([1, 3, 0, 2]), tensor(2))
    """
    row = torch.arange(len(active), device=active.device)
    ahead = active.cumsum(0)
    count = ahead[-1]
    place = torch.where(active, ahead - 1, count + row - ahead)
    return torch.empty_like(row).scatter_(0, place, row), count


class BoundedFrontier(Frontier):
    """A frontier whose rows may be more than its nodes.

    The others are of a node more, `nobody`, to which no edge leads: what they do is finite, and
    seen nowhere.

    Attributes
    ----------
    nodes : Tensor
        `(A,)` ids, those of active nodes first and sorted, then `nobody`.
    count : Tensor
        How many are active, on the device.
    nobody : int
        The number of nodes.
    """

    nodes: Tensor

    def __init__(self, feat: Tensor, place: Tensor | None, nodes: int) -> None:
        self.nobody = feat.shape[0]
        self.count = torch.full((), nodes, device=feat.device)
        super().__init__(_and_nobody(feat), None if place is None else _and_nobody(place), nodes)

    def shrink(self, state: Tensor, stay: Tensor, count: Tensor) -> None:
        """Go on with the rows `stay`, the first `count` of them active."""
        self.advance(state, stay)
        row = torch.arange(len(stay), device=stay.device)
        self.nodes, self.count = self.nodes.masked_fill(row >= count, self.nobody), count


def readable(ids: Tensor, nodes: int) -> Tensor:
    """Ids that are not below `nodes` replaced by others, few of them twice.

    Examples
    --------
    >>> readable(torch.tensor([2, 4, 9, 9]), 5)
    tensor([2, 4, 2, 3])
    """
    return torch.where(ids < nodes, ids, torch.arange(len(ids), device=ids.device))


class _Counted:
    """A graph's surroundings, for rows of which the first `count` are true; a `Showing`."""

    def __init__(self, around: GraphSurroundings, nobody: int) -> None:
        self.around = around
        self.nobody = nobody
        self.frontier: Tensor | None = None
        self.value_shift: Tensor | None = None
        self.count: Tensor | None = None
        self._combined: Tensor | None = None

    def write(self, nodes: Tensor | None, memory: Tensor) -> None:
        self.around.write(nodes, memory)

    def attend(self, layer: MultiHeadAttention, rows: Tensor) -> Tensor:
        assert self.around.memory is not None
        attended: Tensor = layer.attend(
            self.around.layout,
            rows,
            self.around.memory[: self.nobody],
            frontier=self.frontier,
            count=self.count,
            value_shift=self.value_shift,
        )
        return attended

    def cross(self, layer: MultiHeadAttention, rows: Tensor) -> Tensor:
        layout, encoded = self.around.cross_layout, self.around.encoded
        assert layout is not None and encoded is not None
        attended: Tensor = layer.attend(
            layout, rows, encoded.memory(layer), frontier=self.frontier, count=self.count
        )
        return attended

    def transit(self, transition: Transition, rows: Tensor) -> Tensor:
        layout = self.around.layout
        if isinstance(transition, PositionwiseTransition):
            return transition(layout, rows)  # type: ignore[no-any-return]
        assert self.frontier is not None
        if self._combined is None:
            self._combined = rows.new_zeros(self.nobody + 1, rows.shape[1])
        self._combined = self._combined.index_copy(0, self.frontier, rows)
        nodes = readable(self.frontier, layout.num_dst)
        out: Tensor = transition(layout, self._combined[: layout.num_dst], frontier=nodes)
        return out


def _and_nobody(rows: Tensor) -> Tensor:
    return pad(rows, (0, 0, 0, 1))
