"""Quantized states of a recurrence, with the straight-through gradient."""

from dataclasses import dataclass
from numbers import Integral

from torch import Tensor


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
