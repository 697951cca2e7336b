"""Adaptive Computation Time: when a row halts, and with which weight each state counts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

WEIGHTINGS = ("sum", "ema", "last")


@dataclass(frozen=True)
class HaltingRule:
    """When a row halts, and how its states are weighted."""

    threshold: float  # a row halts when its probabilities sum to it
    max_steps: int  # the step at which every row halts
    weighting: str  # "sum": out += w x; "ema": out = w x + (1 - w) out; "last": the last state
    forced_remainder: bool  # the state of a row at `max_steps` gets the weight that is left of 1


@dataclass
class ACTState:
    """Sums of active rows (arXiv 1603.08983, Eqs. 6 to 8 and 13)."""

    rule: HaltingRule
    cumulative: Tensor  # (A,) the sum of the halting probabilities so far, `c`
    out: Tensor  # (A, d) the weighted states so far

    @classmethod
    def start(cls, rule: HaltingRule, rows: Tensor) -> ACTState:
        """Return the state of rows before their first step."""
        wide = torch.promote_types(rows.dtype, torch.float32)
        return cls(rule, rows.new_zeros(rows.shape[0], dtype=wide), torch.zeros_like(rows))

    def update(
        self, states: Tensor, probability: Tensor, step: int, active: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Count one step; rows outside the mask `active` keep their sums.

        Returns
        -------
        tuple of Tensor
            `(A,)` bool, the rows that halt now; `(A,)`, the remainder of these rows.
        """
        rule = self.rule
        last = step == rule.max_steps
        reached = self.cumulative + probability >= rule.threshold
        closing = torch.ones_like(reached) if last and rule.forced_remainder else reached
        remainder = 1.0 - self.cumulative
        weight = torch.where(closing, remainder, probability)
        halts = torch.ones_like(reached) if last else reached
        if active is not None:
            weight, halts = weight.masked_fill(~active, 0.0), halts & active
        self.out = self._weighted(states, weight.to(states.dtype)[:, None], active)
        self.cumulative = self.cumulative + weight
        return halts, remainder.masked_fill(~closing, 0.0)

    def _weighted(self, states: Tensor, weight: Tensor, active: Tensor | None) -> Tensor:
        if self.rule.weighting == "sum":
            return torch.addcmul(self.out, weight, states)
        if self.rule.weighting == "ema":
            return torch.lerp(self.out, states, weight)
        return states if active is None else torch.where(active[:, None], states, self.out)

    def keep(self, rows: Tensor | None) -> None:
        """Go on with these rows alone; `None` for all."""
        if rows is not None:
            self.cumulative = self.cumulative.index_select(0, rows)
            self.out = self.out.index_select(0, rows)

    def keep_first(self, count: int) -> None:
        """Go on with the first rows alone."""
        self.cumulative, self.out = self.cumulative[:count], self.out[:count]
