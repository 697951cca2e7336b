"""Noise on what a recurrence begins with, or is given again at every step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Protocol

import torch
from torch import Tensor

from graphut.attention.dropout import mix, seed_hash

PLACES = ("first", "injected", "every_step")


class DrawnNoise(Protocol):
    """The noise of one call of a recurrence."""

    def __call__(self, nodes: Tensor | None, step: int, rows: Tensor) -> Tensor:
        """Return rows `(A, d)` with the noise of their nodes, `(A,)` ids or all, at a step."""


@dataclass(frozen=True)
class InputNoise:
    """Gaussian noise in training alone.

    It is a function of a seed, the node, the feature and, with "every_step", the step: a node
    gets the same whatever others are active. Each call of a recurrence draws a seed from torch's
    generator on the CPU. So it is other noise for each batch, and for each process of a
    distributed training if their generators differ.

    Parameters
    ----------
    std : float
        Standard deviation, in units of the states. Those of graphut's models begin with
        embeddings of deviation 1.
    on : {"first", "injected", "every_step"}
        The first states, of which what is injected stays clean; or the injected ones, drawn once;
        or the injected ones, drawn anew at each step, of which a halted node keeps the one of the
        step after its last.

    Raises
    ------
    ValueError
        If `std` is negative, or the place unknown.

    Examples
    --------
    >>> torch.manual_seed(0)  # doctest: +ELLIPSIS
    <torch._C.Generator ...>
    >>> noise, rows = InputNoise(0.3).draw(), torch.zeros(5, 8)
    >>> some = torch.tensor([1, 4])
    >>> torch.equal(noise(some, 1, rows[some]), noise(None, 1, rows)[some])
    True
    """

    std: float
    on: str = "first"

    def __post_init__(self) -> None:
        """Check the values."""
        if not 0.0 <= self.std < float("inf"):
            raise ValueError(f"std must be 0 or more and finite, got {self.std}")
        if self.on not in PLACES:
            raise ValueError(f"on must be one of {', '.join(map(repr, PLACES))}; got {self.on!r}")

    def draw(self) -> DrawnNoise:
        """Return the noise of a new seed."""
        return partial(_add_noise, self.std, int(torch.randint(2**62, ())))


def _add_noise(std: float, seed: int, nodes: Tensor | None, step: int, rows: Tensor) -> Tensor:
    size, dim = rows.shape
    ids = torch.arange(size, device=rows.device) if nodes is None else nodes
    by_node = mix(mix(ids) ^ mix(seed_hash(seed) + step))
    feature = torch.arange(dim, device=rows.device)
    bits = mix(by_node[:, None] ^ mix(feature + 0x9E3779B9))
    return rows + std * _quantiles(rows.dtype, rows.device)[bits >> 16]


@lru_cache(maxsize=8)
@torch.inference_mode(False)
def _quantiles(dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return 2^16 equally likely normal numbers: to look one up is exact, whatever the row."""
    with torch.no_grad():
        chances = (torch.arange(2**16, dtype=torch.float64) + 0.5) / 2**16
        numbers: Tensor = torch.special.ndtri(chances)
        return numbers.to(device, dtype)
