"""The sinusoids of coordinates: the position of a node, or the number of a step."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.compiler import is_compiling


def coordinate_signal(
    values: Tensor | float, dim: int, dtype: torch.dtype = torch.float32
) -> Tensor:
    r"""Return the sinusoid of a coordinate.

    From arXiv 1807.03819, Eqs. 6 and 7, one of two terms:

    .. math::
        S(x)_{2j} = \sin(x / 10000^{2j/d}), \qquad S(x)_{2j+1} = \cos(x / 10000^{2j/d})

    The signal of position `pos` at step `t` is :math:`P(pos, t) = S(pos) + S(t)`. Angles are
    taken in float64 and no table is kept: position 10^6 is as exact as position 1.

    Parameters
    ----------
    values : Tensor or float
        Coordinates, of any shape.
    dim : int
        Features of the signal.
    dtype : torch.dtype
        Of the result.

    Returns
    -------
    Tensor
        The shape of `values` with `dim` behind it.

    Examples
    --------
    >>> coordinate_signal(0, 4)
    tensor([0., 1., 0., 1.])
    >>> coordinate_signal(torch.arange(1, 4), 8).shape
    torch.Size([3, 8])
    """
    if dim < 1:
        raise ValueError(f"dim must be at least 1, got {dim}")
    given = torch.as_tensor(values)
    if given.device.type != "cpu" or is_compiling():
        return _sinusoid(given, dim, dtype)  # the host would wait to find out how many differ
    # Sines are slow and positions repeat from sentence to sentence: each is taken once.
    unique, inverse = torch.unique(given, return_inverse=True)
    return _sinusoid(unique, dim, dtype)[inverse]


def position_encoding(positions: Tensor, dim: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return the signals `(N, dim)` of positions `(N,)`, or `(N, k)`, `k` of them a node.

    Those of one node, such as row and column of a grid, stand side by side: each coordinate takes
    `dim / k` features, and `k` must divide `dim`.

    Examples
    --------
    >>> position_encoding(torch.tensor([[0, 0], [1, 0]]), 4)
    tensor([[0.0000, 1.0000, 0.0000, 1.0000],
            [0.8415, 0.5403, 0.0000, 1.0000]])
    """
    coordinates = 1 if positions.dim() == 1 else positions.shape[1]
    if coordinates < 1 or dim % coordinates:
        raise ValueError(f"{dim} features do not divide into {coordinates} coordinates")
    return coordinate_signal(positions, dim // coordinates, dtype).reshape(positions.shape[0], dim)


def _sinusoid(values: Tensor, dim: int, dtype: torch.dtype) -> Tensor:
    exponent = torch.arange(0, dim, 2, dtype=torch.float64, device=values.device) / dim
    angle = values.to(torch.float64)[..., None] / 10000.0**exponent
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)[..., :dim].to(dtype)
