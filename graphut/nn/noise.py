"""Noise on the states of a recurrence, by seed, node and step; and states rounded to few values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral
from typing import Any, TypeAlias

import torch
from torch import Tensor

from graphut.attention.dropout import draw_seed, mix, seed_hash

PLACES = ("first", "every_step")


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
    on : {"first", "every_step"}
        Which states get noise. "first": only the initial states, so that nodes learn to reach the
        same final states from any start. "every_step": the states that `inject_input` adds in
        every step, with new noise in each step; a halted node keeps the noise of the step after its
        last.

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
        if not 0.0 <= self.std < float("inf"):
            raise ValueError(f"std must be 0 or more and finite, got {self.std}")
        if self.on not in PLACES:
            raise ValueError(f"on must be one of {', '.join(map(repr, PLACES))}; got {self.on!r}")

    def draw(self) -> DrawnNoise:
        """Draw a seed, and return the noise for one call of a recurrence."""
        return DrawnNoise(self.std, int(draw_seed(torch.device("cpu"))))


@dataclass(frozen=True)
class DrawnNoise:
    """Gaussian noise with a given seed, for one call of a recurrence."""

    std: float
    seed: int
    ids: Tensor | None = None  # of all nodes, if the nodes of a call are part of a graph

    def add(self, rows: Tensor, nodes: Tensor | None = None, step: int = 1) -> Tensor:
        """Return `rows`, the states `(A, d)` of `nodes` (None: all), plus the noise of `step`."""
        node = torch.arange(len(rows), device=rows.device) if nodes is None else nodes
        if self.ids is not None:
            node = self.ids[node]
        feature = torch.arange(rows.shape[1], device=rows.device)
        by_node = mix(mix(node) ^ mix(seed_hash(self.seed) + step))
        bits = mix(by_node[:, None] ^ mix(feature + 0x9E3779B9))
        return rows + self.std * _quantiles(rows.dtype, rows.device)[bits >> 16]


Noise: TypeAlias = Mapping[str, DrawnNoise]
"""The noise of one call: a dictionary from `InputNoise.on`, or "quantized", to the noise."""


def draw_noise(layer: Any) -> Noise:
    """Return the noise of one call of a recurrence; none in evaluation."""
    if not layer.training:
        return {}
    drawn = {kind.on: kind.draw() for kind in kinds_of_noise(layer.noise)}
    if layer.quantize is not None and layer.quantize.noise:
        drawn["quantized"] = InputNoise(layer.quantize.noise).draw()
    return drawn


def kinds_of_noise(noise: InputNoise | Sequence[InputNoise] | None) -> Sequence[InputNoise]:
    """Return the argument `noise` of a recurrence as a sequence, which is empty for None."""
    if noise is None:
        return ()
    return noise if isinstance(noise, Sequence) else (noise,)


def with_noise(
    noise: Noise, place: str, rows: Tensor, nodes: Tensor | None = None, step: int = 1
) -> Tensor:
    """Return the states of `nodes` (None: all) plus the noise of a place such as "first"."""
    return noise[place].add(rows, nodes, step) if place in noise else rows


@lru_cache(maxsize=8)
@torch.inference_mode(False)
@torch.no_grad()
def _quantiles(dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return 2^16 quantiles of the normal distribution, a table indexed by 16 random bits."""
    chances = (torch.arange(2**16, dtype=torch.float64) + 0.5) / 2**16
    numbers: Tensor = torch.special.ndtri(chances)
    return numbers.to(device, dtype)


@dataclass(frozen=True)
class Quantized:
    """Round every state to a few values, so that a recurrence can reach an exact fixed point.

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
    >>> import torch
    >>> Quantized(levels=2).round(torch.tensor([-3.0, 0.1, 0.6]))
    tensor([-1.0000,  0.0000,  0.5000])
    """

    levels: int = 2
    noise: float = 0.0

    def __post_init__(self) -> None:
        levels = self.levels
        if isinstance(levels, bool) or not isinstance(levels, Integral) or levels < 1:
            raise ValueError(f"levels must be a whole number, at least 1; got {levels!r}")
        if not 0.0 <= self.noise < float("inf"):
            raise ValueError(f"noise must be 0 or more and finite, got {self.noise}")

    def round(self, states: Tensor) -> Tensor:
        """Return `tanh(states)`, rounded to multiples of `1 / levels`."""
        smooth = states.tanh()
        exact = (smooth.detach() * self.levels).round() / self.levels
        # The difference is exactly 0, so equal states stay equal to the last bit.
        return exact + (smooth - smooth.detach()) if smooth.requires_grad else exact
