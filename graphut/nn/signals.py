"""Position and step signals, which each step adds to states."""

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias, TypeGuard

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _get_current_dispatch_mode

from graphut.attention.tracing import is_capturing, outside_inference
from graphut.nn.layers import is_hooked

_TABLE = 1 << 12  # positions whose signals are kept in a table

Signal: TypeAlias = Callable[[Tensor], Tensor]
"""Function from coordinates `(n,)`, or `(n, k)` for `k` coordinates of each node, to `(n, d)`."""


class SinusoidalSignal(nn.Module):
    """Sines and cosines of coordinates, see `coordinate_signal`.

    Callers count positions and steps from 1. In the formula, `count_from` replaces this 1: it is 1
    (arXiv 1807.03819) or 0.

    Examples
    --------
    >>> SinusoidalSignal(4)(torch.tensor([[0, 0], [1, 0]]))  # two coordinates for each node
    tensor([[0.0000, 1.0000, 0.0000, 1.0000],
            [0.8415, 0.5403, 0.0000, 1.0000]], dtype=torch.float64)
    """

    def __init__(self, dim: int, *, count_from: int = 1) -> None:
        super().__init__()
        self.dim = dim
        self.count_from = count_from

    def forward(self, coordinates: Tensor) -> Tensor:
        """Return the signal, float64 `(n, dim)`, of coordinates `(n,)` or `(n, k)`.

        Several coordinates of a node, such as row and column of a grid, take `dim / k` features
        each. Raise `ValueError` if `k` does not divide `dim`.
        """
        several = 1 if coordinates.dim() == 1 else coordinates.shape[1]
        if several < 1 or self.dim % several:
            raise ValueError(f"{self.dim} features do not divide into {several} coordinates")
        counted = coordinates if self.count_from == 1 else coordinates + (self.count_from - 1)
        rows = coordinate_signal(counted, self.dim // several, torch.float64)
        return rows.reshape(len(coordinates), self.dim)

    def extra_repr(self) -> str:
        return f"{self.dim}, count_from={self.count_from}"


class LearnedSignal(nn.Embedding):
    """Table with a learned row for each of `size` coordinates, from `first` on.

    Positions and steps are counted from 1. Coordinates are checked in every call, so the host waits
    for the GPU. A coordinate without a row raises `ValueError`.

    Examples
    --------
    >>> LearnedSignal(8, 4)(torch.tensor([1, 8])).shape
    torch.Size([2, 4])
    """

    def __init__(self, size: int, dim: int, *, first: int = 1) -> None:
        super().__init__(size, dim)
        self.first = first

    def forward(self, coordinates: Tensor) -> Tensor:
        """Return the learned row of each coordinate: `(n, dim)` for coordinates `(n,)`."""
        rows = coordinates.long() - self.first
        missing = (rows < 0) | (rows >= self.num_embeddings) | (rows + self.first != coordinates)
        if not is_capturing() and bool(missing.any()):
            last = self.first + self.num_embeddings - 1
            raise ValueError(
                f"a learned signal of size {self.num_embeddings} has rows for {self.first} to "
                f"{last}, not for {coordinates[missing][0].item()}: change size or first"
            )
        return super().forward(rows)


def make_signal(
    which: Signal | str | None, name: str, dim: int, size: int | None = None
) -> Signal | None:
    """Return the signal for the argument `name`, whose value is `which`; "learned" needs `size`."""
    if which is None or callable(which):
        return which
    if which in ("sinusoidal", "sinusoidal0"):
        return SinusoidalSignal(dim, count_from=int(which == "sinusoidal"))
    if which == "learned" and size is not None:
        return LearnedSignal(size, dim)
    learned = "" if size is None else "'learned', "
    raise ValueError(
        f"{name} must be 'sinusoidal', 'sinusoidal0', {learned}None, or a function from "
        f"coordinates to rows, such as LearnedSignal(size, {dim}), got {which!r}"
    )


def encode(signal: Signal, coordinates: Tensor, like: Tensor) -> Tensor:
    """Return the signal of `n` coordinates, `(n, d)`, in the dtype of `like`, `(..., d)`."""
    is_small = coordinates.dtype == torch.int64 and coordinates.device.type == "cpu"
    is_small = is_small and coordinates.dim() == 1 and coordinates.numel() > 0
    if is_small and _is_fixed(signal, like):
        table = _sinusoids(signal.count_from - 1, _TABLE, signal.dim, like.dtype, like.device)
        try:
            return table.index_select(0, coordinates)
        except IndexError:  # a coordinate is beyond the table
            pass
    return _call_signal(signal, coordinates, like)


def step_signals(signal: Signal, steps: int, like: Tensor) -> Tensor:
    """Return the signals of steps 1 to `steps`, `(steps, d)`, with width and dtype of `like`."""
    if _is_fixed(signal, like):
        return _sinusoids(signal.count_from, steps, signal.dim, like.dtype, like.device)
    return _call_signal(signal, torch.arange(1, steps + 1, device=like.device), like)


def _is_fixed(signal: Signal, like: Tensor) -> TypeGuard[SinusoidalSignal]:
    """Return whether a signal depends only on coordinates, and its rows can be kept."""
    if type(signal) is not SinusoidalSignal or signal.dim != like.shape[-1]:
        return False
    return _get_current_dispatch_mode() is None and not is_hooked(signal)


@lru_cache(maxsize=16)
def _sinusoids(
    first: int, steps: int, dim: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Return the sinusoidal signals, `(steps, dim)`, of the numbers `first`, `first + 1`, ..."""
    with outside_inference(), torch.no_grad():
        return coordinate_signal(torch.arange(first, first + steps, device=device), dim, dtype)


def _call_signal(signal: Signal, coordinates: Tensor, like: Tensor) -> Tensor:
    rows = signal(coordinates)
    wanted = (coordinates.shape[0], like.shape[1])
    if rows.shape != wanted:
        raise ValueError(
            f"a signal returned rows of shape {tuple(rows.shape)} for {len(coordinates)} "
            f"coordinates; it must return one row of {wanted[1]} features for each"
        )
    return rows.to(like.dtype)


def coordinate_signal(
    values: Tensor | float, dim: int, dtype: torch.dtype = torch.float32
) -> Tensor:
    r"""Return the sinusoidal encoding of coordinates.

    One of the two terms in arXiv 1807.03819, Eqs. 6 and 7:

    .. math::
        S(x)_{2j} = \sin(x / 10000^{2j/d}), \qquad S(x)_{2j+1} = \cos(x / 10000^{2j/d})

    Angles are computed in float64 and not read from a table, so position 10^6 is as exact as
    position 1. The result has the shape of `values`, followed by `dim`.

    Examples
    --------
    >>> coordinate_signal(torch.arange(1, 4), 8).shape
    torch.Size([3, 8])
    """
    if dim < 1:
        raise ValueError(f"dim must be at least 1, got {dim}")
    values = torch.as_tensor(values)
    rates, offsets = _rates(dim, values.device)
    return torch.addcmul(offsets, values.to(torch.float64)[..., None], rates).sin().to(dtype)


@lru_cache
def _rates(dim: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the factor and the offset of each feature's angle; a cosine is a sine, moved."""
    with outside_inference(), torch.no_grad():
        feature = torch.arange(dim, dtype=torch.float64, device=device)
        return 10000.0 ** -(feature // 2 * 2 / dim), feature % 2 * (torch.pi / 2)
