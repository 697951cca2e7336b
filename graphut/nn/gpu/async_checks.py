"""Checks for values that are not finite; the host does not wait for the device."""

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from graphut.nn.loop import FiniteChecks, probability_error

NO_ERROR = 2**31 - 1


class AsyncFiniteChecks(FiniteChecks):
    """Checks whose results are copied to the host without blocking, and read later.

    An invalid value raises an error when it has arrived at the host: at once, or in a later call of
    the layer. The code of an error is `step * size + node`: a halting probability
    that is not a number or, in step 0, a feature that is not finite.
    """

    def __init__(self, layer: Any) -> None:
        self._layer = layer
        _raise_what_arrived(layer)

    def check_features(self, feat: Tensor) -> None:
        """Record on the device which nodes have initial states `(N_src, d)` that are not finite."""
        low, high = feat.detach().aminmax(dim=1)
        node = torch.arange(len(feat), device=feat.device, dtype=torch.int32)
        self.note(torch.where(low.isfinite() & high.isfinite(), NO_ERROR, node), len(feat))

    def note(self, codes: Tensor, size: int) -> None:
        """Start to copy the first error to the host; among the codes, `NO_ERROR` means none."""
        if len(codes):  # not for a graph without nodes
            first = codes.amin()
            code = torch.empty((), dtype=first.dtype, pin_memory=True)
            code.copy_(first, non_blocking=True)
            arrival = torch.cuda.current_stream(first.device).record_event()
            _reports.setdefault(self._layer, []).append((code, arrival, size))
            _raise_what_arrived(self._layer)


def synchronize() -> None:
    """Wait for the GPU, and raise the first error of a call that has not been reported yet.

    On a GPU, a recurrence reports features or probabilities that are not finite in the call if the
    GPU has computed them by then, else in a later call of the same layer.

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
        step, node = divmod(code, size)
        if code != NO_ERROR and step:
            raise ValueError(probability_error(node, step, is_nan=True))
        if code != NO_ERROR:
            raise ValueError(
                f"a feature of node {node} is not a finite number; all of them must be"
            )
