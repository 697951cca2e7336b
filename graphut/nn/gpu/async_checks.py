"""Checks for values that are not finite; the host does not wait for the device."""

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from graphut.nn.finite_checks import FiniteChecks, probability_error, wrong_probabilities

NO_ERROR = 2**31 - 1


class AsyncFiniteChecks(FiniteChecks):
    """Checks whose results are copied to the host without blocking, and read later.

    An invalid value raises an error when it arrives at the host: at the end of the call, or in a
    later call of the layer.
    """

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self._layer = layer
        self._codes: list[Tensor] = []
        self._size = 1
        _raise_what_arrived(layer)

    def check_features(self, feat: Tensor) -> None:
        """Record on the device which nodes have initial states `(N_src, d)` that are not finite."""
        low, high = feat.detach().aminmax(dim=1)
        self._note(2 * (~(low.isfinite() & high.isfinite())).int(), 0)

    def check_probability(self, probability: Tensor, nodes: Tensor | None, step: int) -> None:
        """Record on the device which halting probabilities, of all nodes, are not in [0, 1]."""
        self._note(wrong_probabilities(probability), step)

    def _note(self, wrong: Tensor, step: int) -> None:
        """Store which of the first nodes are wrong: 0 none, 1 outside [0, 1], 2 not a number."""
        self._size = max(self._size, len(wrong))
        row = torch.arange(len(wrong), device=wrong.device, dtype=torch.int32)
        code = (step * self._size + row) * 2 + (wrong == 1)
        if len(wrong):
            self.note_first(
                torch.where(wrong > 0, code, NO_ERROR).amin(0, keepdim=True), self._size
            )

    def note_first(self, code: Tensor, size: int) -> None:
        """Store the first error of some steps, `2 * (step * size + node)`; step 0 is the features.

        The code is odd if a probability is a number outside [0, 1]. `NO_ERROR` means no error.
        """
        self._codes.append(code)
        self._size = size

    def close(self) -> None:
        """Start to copy the first invalid value to the host; raise an error if one has arrived."""
        if self._codes:  # not for a graph without nodes
            first = torch.cat(self._codes).amin()
            _reports.setdefault(self._layer, []).append((AsyncHostCopy(first), self._size))
            _raise_what_arrived(self._layer)


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


# Codes that are on their way to the host, and their sizes. They are beside the layers, not in them:
# a copy on its way from a device can not be copied or saved.
_reports: WeakKeyDictionary[nn.Module, list[tuple[AsyncHostCopy, int]]] = WeakKeyDictionary()


def _raise_what_arrived(layer: nn.Module) -> None:
    waiting = _reports.get(layer, [])
    while waiting and waiting[0][0].arrived():
        found, size = waiting.pop(0)
        [code] = found.numbers()
        step, node = divmod(code // 2, size)
        if code != NO_ERROR and step:
            raise ValueError(probability_error(node, step, code % 2 == 0))
        if code != NO_ERROR:
            raise ValueError(
                f"a feature of node {node} is not a finite number; all of them must be"
            )
