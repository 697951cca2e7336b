"""Checks for values that are not finite; the host does not wait for the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from graphut.nn.finite_checks import FiniteChecks, probability_error, wrong_probabilities

# A step computes the rows of the nodes that were active `LAG` steps before; those that have halted
# since are masked. The number of rows is copied to the host while the device computes the next
# step, so that the device never waits for the host. As `LAG` is fixed, results do not depend on the
# time at which a number arrives.
LAG = 1
_NO_ERROR = 2**31 - 1


class AsyncFiniteChecks(FiniteChecks):
    """Checks whose results are copied to the host without blocking, and read later.

    The class also counts active nodes. Their number never grows, so the count of `LAG` steps ago is
    an upper bound. The host waits only if it is more than `LAG` steps ahead of the device. An
    invalid value raises an error when it arrives at the host: at the end of the call, or in a later
    call of the layer. The first `num_dst` of `num_src` nodes take steps; id `num_src` is padding.
    """

    def __init__(self, layer: Any, num_src: int, num_dst: int) -> None:
        super().__init__()
        self._layer = layer
        self._num_src = num_src
        self._bound = num_dst
        self._counts: list[AsyncHostCopy] = []
        self._wrong: list[Tensor] = []
        self._nodes: list[Tensor] = []
        self._first: tuple[Tensor, int] | None = None
        _raise_what_arrived(layer)

    def check_features(self, feat: Tensor) -> None:
        """Record on the device which nodes have initial states `(N_src, d)` that are not finite."""
        low, high = feat.detach().aminmax(dim=1)
        self.note((~(low.isfinite() & high.isfinite())).int(), None)

    def check_probability(self, probability: Tensor, nodes: Tensor | None, step: int) -> None:
        """Record on the device which halting probabilities `(A,)` are NaN or outside [0, 1]."""
        self.note(wrong_probabilities(probability), nodes)

    def bound(self, count: Tensor) -> int:
        """Start to copy the number of active nodes; return the number of `LAG` steps ago."""
        bound = self.next_bound()
        self.send(count)
        return bound

    def send(self, count: Tensor) -> None:
        """Start to copy the number of active nodes after a step to the host."""
        self._counts.append(AsyncHostCopy(count))

    def next_bound(self) -> int:
        """Return the number of active nodes `LAG` steps ago, an upper bound of their number now."""
        if len(self._counts) >= LAG:
            (self._bound,) = self._counts.pop(0).numbers()
        return self._bound

    def close(self) -> None:
        """Start to copy the first invalid value to the host; raise an error if one has arrived."""
        if self._first is not None:
            found, sizes = self._first[0], [self._first[1]]
        else:
            nodes, sizes = torch.cat(self._nodes), [len(rows) for rows in self._nodes]
            if not len(nodes):  # a graph without nodes
                return
            wrong = torch.cat(self._wrong) * (nodes < self._num_src)
            first = (wrong > 0).int().argmax(0, keepdim=True)
            found = torch.cat([wrong.index_select(0, first), first, nodes.index_select(0, first)])
        report = _Report(AsyncHostCopy(found), sizes)
        _reports.setdefault(self._layer, []).append(report)
        _raise_what_arrived(self._layer)

    def note_first(self, code: Tensor, size: int) -> None:
        """Store the first error of all steps, `step * size + node`; step 0 is the features.

        The largest int32 means no error.
        """
        self._first = code, size

    def note(self, wrong: Tensor, nodes: Tensor | None) -> None:
        """Store an error code for each of `nodes` (None: the first nodes); 0 means no error."""
        ids = torch.arange(len(wrong), device=wrong.device) if nodes is None else nodes
        self._wrong.append(wrong)
        self._nodes.append(ids)


class AsyncHostCopy:
    """A copy of integers from the device to the host, which may not have arrived yet."""

    def __init__(self, value: Tensor) -> None:
        self._value = value.detach().view(-1)
        self._event: torch.cuda.Event | None = None
        if value.is_cuda:
            host = torch.empty(len(self._value), dtype=value.dtype, pin_memory=True)
            self._value = host.copy_(self._value, non_blocking=True)
            self._event = torch.cuda.current_stream(value.device).record_event()

    def arrived(self) -> bool:
        """Return whether the integers can be read without waiting."""
        return self._event is None or self._event.query()

    def numbers(self) -> list[int]:
        """Return the integers, waiting for them if they have not arrived."""
        if self._event is not None:
            self._event.synchronize()
        return self._value.tolist()


@dataclass
class _Report:
    """The first invalid value in one call of a recurrence, on its way to the host."""

    # Three integers: an error code (0 none, 1 out of range, 2 NaN), the row of the first invalid
    # value in all checks joined, and its node. Or the code of `AsyncFiniteChecks.note_first`.
    found: AsyncHostCopy
    sizes: list[int]  # numbers of rows that were checked: of the features, and of each step

    def raise_error(self) -> None:
        wrong, *where = self.found.numbers()
        if where:
            (row, node), step = where, 0
            while wrong and row >= self.sizes[step]:
                row -= self.sizes[step]
                step += 1
        else:
            step, node = divmod(wrong, self.sizes[0])
            wrong = 0 if wrong == _NO_ERROR else 2
        if not wrong:
            return
        if step:
            raise ValueError(probability_error(node, step, wrong == 2))
        raise ValueError(f"a feature of node {node} is not a finite number; all of them must be")


# Beside the layers, not in them: a copy on its way from a device can not be copied or saved.
_reports: WeakKeyDictionary[nn.Module, list[_Report]] = WeakKeyDictionary()


def _raise_what_arrived(layer: nn.Module) -> None:
    waiting = _reports.get(layer, [])
    while waiting and waiting[0].found.arrived():
        waiting.pop(0).raise_error()
