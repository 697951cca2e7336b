"""Noise on the states of a recurrence, and the rounding of states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral
from typing import TypeAlias

import torch
from torch import Tensor

from graphut.attention.dropout import draw_seed, mix, seed_hash

PLACES = ("first", "injected", "every_step")


@dataclass(frozen=True)
class InputNoise:
    """Add Gaussian noise to states in training.

    The noise is a function of a seed, the node, the feature and, with "every_step", the step: it
    does not depend on which other nodes are active. Each call of a recurrence draws a seed from
    torch's generator on the CPU, so every batch has new noise.

    Parameters
    ----------
    std : float
        Standard deviation. Initial states of graphut's models are embeddings with a standard
        deviation of 1.
    on : {"first", "injected", "every_step"}
        Which states get noise. "first": the initial states, but not the injected ones, so that
        nodes that wake learn to find the same states from any start. "injected": the injected
        states, with one draw for all steps. "every_step": the same, with a new draw at each step;
        a halted node keeps the draw of the step after its last.

    Raises
    ------
    ValueError
        If `std` is negative or not finite, or `on` is unknown.

    Examples
    --------
    >>> noise, rows, some = InputNoise(0.3).draw(), torch.zeros(5, 8), torch.tensor([1, 4])
    >>> torch.equal(noise.add(rows[some], some), noise.add(rows)[some])
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
        return DrawnNoise(self.std, int(draw_seed(torch.device("cpu"))))


@dataclass(frozen=True)
class DrawnNoise:
    """The noise of one call of a recurrence."""

    std: float
    seed: int

    def add(self, rows: Tensor, nodes: Tensor | None = None, step: int = 1) -> Tensor:
        """Add the noise of a step to rows `(A, d)` of the nodes `(A,)`, or of all nodes."""
        node = torch.arange(len(rows), device=rows.device) if nodes is None else nodes
        feature = torch.arange(rows.shape[1], device=rows.device)
        by_node = mix(mix(node) ^ mix(seed_hash(self.seed) + step))
        bits = mix(by_node[:, None] ^ mix(feature + 0x9E3779B9))
        return rows + self.std * _quantiles(rows.dtype, rows.device)[bits >> 16]


Noise: TypeAlias = Mapping[str, DrawnNoise]
"""The noise of one call of a recurrence, by place."""


def draw_noise(kinds: Iterable[InputNoise], before_rounding: float) -> Noise:
    """Draw a seed for each kind of noise, and for noise before quantization if there is some."""
    drawn = {kind.on: kind.draw() for kind in kinds}
    if before_rounding:
        drawn["quantized"] = InputNoise(before_rounding).draw()
    return drawn


def with_noise(
    noise: Noise, place: str, rows: Tensor, nodes: Tensor | None = None, step: int = 1
) -> Tensor:
    """Add the noise of a place to rows, if there is some."""
    return noise[place].add(rows, nodes, step) if place in noise else rows


@lru_cache(maxsize=8)
@torch.inference_mode(False)
@torch.no_grad()
def _quantiles(dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return 2^16 quantiles of the normal distribution; a lookup is exact in every batch."""
    chances = (torch.arange(2**16, dtype=torch.float64) + 0.5) / 2**16
    numbers: Tensor = torch.special.ndtri(chances)
    return numbers.to(device, dtype)


@dataclass(frozen=True)
class Quantized:
    """Round every state to a few values, so that a recurrence can come to rest exactly.

    A new state becomes `round(tanh(state) * levels) / levels`. The gradient is the gradient of
    `tanh(state)` (straight-through estimator, arXiv 1308.3432).

    Parameters
    ----------
    levels : int
        Number of steps from 0 to 1: a feature takes one of `2 * levels + 1` values.
    noise : float
        In training, standard deviation of the noise that is added to a new state before `tanh`.

    Raises
    ------
    ValueError
        If `levels` is below 1, or `noise` is negative or not finite.

    Examples
    --------
    >>> Quantized(levels=2).round(torch.tensor([-3.0, 0.1, 0.6]))
    tensor([-1.0000,  0.0000,  0.5000])
    """

    levels: int = 2
    noise: float = 0.0

    def __post_init__(self) -> None:
        """Check the values."""
        levels = self.levels
        if isinstance(levels, bool) or not isinstance(levels, Integral) or levels < 1:
            raise ValueError(f"levels must be a whole number, at least 1; got {levels!r}")
        if not 0.0 <= self.noise < float("inf"):
            raise ValueError(f"noise must be 0 or more and finite, got {self.noise}")

    def round(self, states: Tensor) -> Tensor:
        """Return the quantized states."""
        smooth = states.tanh()
        exact = (smooth.detach() * self.levels).round() / self.levels
        # The difference is exactly 0, so equal states stay equal to the last bit.
        return exact + (smooth - smooth.detach()) if smooth.requires_grad else exact
