"""Position and step signals, which each step adds to states; and relative positions of edges."""

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias, TypeGuard

import torch
from torch import Tensor, nn
from torch.compiler import is_compiling
from torch.utils._python_dispatch import _get_current_dispatch_mode

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout, as_layout
from graphut.attention.edge_sums import edge_dot
from graphut.attention.tracing import is_tracing, outside_autocast, outside_inference
from graphut.nn.checks import check_same_nodes
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
        if not is_tracing() and bool(missing.any()):
            last = self.first + self.num_embeddings - 1
            raise ValueError(
                f"a learned signal of size {self.num_embeddings} has rows for {self.first} to "
                f"{last}, not for {coordinates[missing][0].item()}: make it larger"
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
    if coordinates.dim() > 1:
        return _call_signal(signal, coordinates, like)
    is_small = coordinates.dtype == torch.int64 and coordinates.device.type == "cpu"
    if is_small and coordinates.numel() and _is_fixed(signal, like):
        low, high = coordinates.aminmax()
        if low.item() >= 0 and high.item() < _TABLE:
            table = _sinusoids(signal.count_from - 1, _TABLE, signal.dim, like.dtype, like.device)
            return table.index_select(0, coordinates)
    return _call_with_unique(lambda unique: _call_signal(signal, unique, like), coordinates)


def step_signals(signal: Signal, steps: int, like: Tensor) -> Tensor:
    """Return the signals of steps 1 to `steps`, `(steps, d)`, with width and dtype of `like`."""
    if _is_fixed(signal, like):
        return _sinusoids(signal.count_from, steps, signal.dim, like.dtype, like.device)
    return _call_signal(signal, torch.arange(1, steps + 1, device=like.device), like)


def _is_fixed(signal: Signal, like: Tensor) -> TypeGuard[SinusoidalSignal]:
    """Return whether a signal depends only on coordinates, and its rows can be kept."""
    if type(signal) is not SinusoidalSignal or signal.dim != like.shape[-1]:
        return False
    is_intercepted = is_compiling() or _get_current_dispatch_mode() is not None
    return not (is_intercepted or is_hooked(signal))


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
    return _call_with_unique(lambda unique: _sinusoid(unique, dim, dtype), torch.as_tensor(values))


def _call_with_unique(function: Callable[[Tensor], Tensor], values: Tensor) -> Tensor:
    """Return `function(values)`, but call the function on each different value only once."""
    # On a GPU the host would wait for their number, and `unique` is not differentiable.
    if values.device.type != "cpu" or is_compiling() or values.requires_grad:
        return function(values)
    unique, inverse = torch.unique(values, return_inverse=True)
    return function(unique)[inverse]


def _sinusoid(values: Tensor, dim: int, dtype: torch.dtype) -> Tensor:
    make = _rates.__wrapped__ if is_compiling() else _rates
    rates, offsets = make(dim, values.device)
    return torch.addcmul(offsets, values.to(torch.float64)[..., None], rates).sin().to(dtype)


@lru_cache
def _rates(dim: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the factor and the offset of each feature's angle; a cosine is a sine, moved."""
    with outside_inference(), torch.no_grad():
        feature = torch.arange(dim, dtype=torch.float64, device=device)
        return 10000.0 ** -(feature // 2 * 2 / dim), feature % 2 * (torch.pi / 2)


class RelativePositions(nn.Module):
    """A term of attention scores for distances (arXiv 1901.02860, section 3.3)."""

    def __init__(self, feats: int, num_heads: int, head_feats: int) -> None:
        super().__init__()
        # The vectors u and v, which are added to the queries of keys and of distances.
        self.bias = nn.Parameter(torch.empty(2, num_heads, head_feats))
        self.distance = nn.Linear(feats, num_heads * head_feats, bias=False)

    def reset_parameters(self) -> None:
        """Draw the linear map from a Xavier uniform distribution, and set the biases to zero."""
        nn.init.xavier_uniform_(self.distance.weight)
        nn.init.zeros_(self.bias)

    def forward(
        self, layout: EdgeLayout, query: Tensor, frontier: Tensor | None, edge_distance: Tensor
    ) -> Tensor:
        """Return the terms, `(E, num_heads)`, that distances, `(E,)` by edge id, add to the scores.

        `query`, `(A, num_heads, head_feats)`, are the queries, with `v` added, of `frontier`.
        """
        row, _, edge = layout.in_edges(frontier)
        values, index = edge_distance[edge], torch.arange(len(row), device=row.device)
        if len(row) and not (values.is_floating_point() or is_tracing()):
            low, high = (int(end) for end in values.aminmax())
            if high - low < len(row):  # map each distance once
                values, index = torch.arange(low, high + 1, device=row.device), values - low
        with outside_autocast(query.device.type):
            query = query.to(torch.promote_types(query.dtype, torch.float32))
            query = query * query.shape[2] ** -0.5
            weight = self.distance.weight
            mapped = self.distance(coordinate_signal(values, weight.shape[1], weight.dtype))
            mapped = mapped.unflatten(1, query.shape[1:]).to(query.dtype)
            if len(query) * len(values) <= 4 * len(row):  # most distances occur at most nodes
                table = torch.einsum("ahd,rhd->har", query, mapped).flatten(1)
                scores = table.index_select(1, row * len(values) + index).T
            else:
                scores = edge_dot(query, mapped, row, index)
        if frontier is None and layout.edge_ids is None:
            return scores
        return scores.new_zeros(layout.num_edges, scores.shape[1]).index_copy(0, edge, scores)


def edge_distances(graph: DGLGraph | EdgeLayout, positions: Tensor) -> Tensor:
    """Return the position of the destination minus that of the source for each edge, `(E,)`.

    `positions`, `(N_src,)`, are those of the sources, which begin with the destinations. Raise
    `ValueError` if they have another shape.

    Examples
    --------
    >>> from graphut.topology import Causal
    >>> edge_distances(Causal().layout([3]), torch.arange(3))
    tensor([0, 1, 0, 2, 1, 0])
    """
    check_same_nodes(graph)
    layout = as_layout(graph)
    if positions.shape != (layout.num_src,):
        raise ValueError(
            f"relative positions must be ({layout.num_src},), one for each source node, got shape "
            f"{tuple(positions.shape)}"
        )
    row, source, edge = layout.in_edges()
    distance = positions[row] - positions[source]
    return torch.empty_like(distance).index_copy(0, edge, distance)
