"""Checks for values that are not finite; the host does not wait for the device."""

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from graphut.nn.checks import FiniteChecks, probability_error, wrong_probabilities

NO_ERROR = 2**31 - 1


class AsyncFiniteChecks(FiniteChecks):
    """Checks whose results are copied to the host without blocking, and read later.

    An invalid value raises an error when it arrives at the host: at the end of the call, or in a
    later call of the layer. The code of an error is `2 * (step * size + node)`, where step 0 is the
    features, plus 1 if it is a probability that is a number outside [0, 1].
    """

    def __init__(self, layer: Any) -> None:
        self._layer, self._size = layer, 1
        self._codes: list[Tensor] = []
        _raise_what_arrived(layer)

    def check_features(self, feat: Tensor) -> None:
        """Record on the device which nodes have initial states `(N_src, d)` that are not finite."""
        low, high = feat.detach().aminmax(dim=1)
        self._note_wrong(2 * (~(low.isfinite() & high.isfinite())).int(), 0)

    def check_probability(self, probability: Tensor, nodes: Tensor | None, step: int) -> None:
        """Record on the device which halting probabilities, of all nodes, are not in [0, 1]."""
        self._note_wrong(wrong_probabilities(probability), step)

    def _note_wrong(self, wrong: Tensor, step: int) -> None:
        """Store an error for each of the first nodes that is not 0 in `wrong`."""
        size = max(self._size, len(wrong))
        node = torch.arange(len(wrong), device=wrong.device, dtype=torch.int32)
        code = (step * size + node) * 2 + (wrong == 1)
        self.note(torch.where(wrong > 0, code, NO_ERROR), size)

    def note(self, codes: Tensor, size: int) -> None:
        """Store the codes of errors, int32; `NO_ERROR` means no error."""
        self._codes.append(codes)
        self._size = size

    def close(self) -> None:
        """Start to copy the first error to the host; raise errors that have arrived there."""
        if any(map(len, self._codes)):  # not for a graph without nodes
            codes = torch.cat(self._codes) if len(self._codes) > 1 else self._codes[0]
            first = codes.amin() if len(codes) > 1 else codes[0]
            code = torch.empty((), dtype=first.dtype, pin_memory=True)
            code.copy_(first, non_blocking=True)
            arrival = torch.cuda.current_stream(first.device).record_event()
            _reports.setdefault(self._layer, []).append((code, arrival, self._size))
            _raise_what_arrived(self._layer)


def synchronize() -> None:
    """Wait for the GPU, and raise the first error of a call that has not been reported yet.

    On a GPU, a recurrence reports features or probabilities that are not finite at the end of the
    call if the GPU has computed them by then, else in a later call of the same layer.

    Raises
    ------
    ValueError
        If a feature or a probability was not finite.

    Examples
    --------
    >>> from graphut.nn import gpu
    >>> gpu.synchronize()
    """
    for layer, waiting in list(_reports.items()):
        for _, arrival, _ in waiting:
            arrival.synchronize()
        _raise_what_arrived(layer)


# For each layer: codes on their way to the host, the events after which they are there, and sizes.
# They are beside the layers, not in them: events can not be copied or saved.
_reports: WeakKeyDictionary[nn.Module, list[tuple[Tensor, torch.cuda.Event, int]]]
_reports = WeakKeyDictionary()


def _raise_what_arrived(layer: nn.Module) -> None:
    waiting = _reports.get(layer, [])
    while waiting and waiting[0][1].query():
        first, _, size = waiting.pop(0)
        code = int(first)
        step, node = divmod(code // 2, size)
        if code != NO_ERROR and step:
            raise ValueError(probability_error(node, step, code % 2 == 0))
        if code != NO_ERROR:
            raise ValueError(
                f"a feature of node {node} is not a finite number; all of them must be"
            )
