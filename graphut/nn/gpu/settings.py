"""Which recurrences run as a `Program`, a fixed sequence of kernel launches on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from graphut.attention import EdgeLayout
from graphut.nn.halting import HaltingUnit, ScheduledHalting
from graphut.nn.plain_step import is_plain, is_untouched
from graphut.nn.rules import ACT, HaltingRule

WIDEST = 2048  # features of a state, a row of which fits in one program
_MOST = 2**31 - 1  # numbers of a step and a node are one int32


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a program computes, beside the sizes of its inputs."""

    max_steps: int
    heads: int
    norm: str | None
    eps: tuple[float, float]  # of the LayerNorms of attention and of the transition
    activation: str  # as in `graphut.nn.gpu.kernels.products`
    stored: str  # which nodes a step stores beside active ones: "none", "halting" or "all"
    low: float | None  # probability of a scheduled node before it halts; None for a halting unit
    reads_input: bool  # whether the halting unit reads the input of the step
    threshold: float
    forced: bool
    learns: bool  # whether there is a backward pass


def program_settings(
    step: Any,
    rule: HaltingRule,
    halting: nn.Module | None,
    layout: EdgeLayout,
    *,
    halted: str,
    max_steps: int,
    learns: bool,
) -> Settings | None:
    """Return the settings of a program for a recurrence, or None if there is none for it.

    The step must be as graphut makes it, without hooks, dropout and cross-attention, and the rule
    `ACT` with weighted sums, whose probabilities are those of a unit or of a schedule.
    """
    if type(rule) is not ACT or rule.weighting != "sum" or not _knows_halting(halting, layout):
        return None
    if step.cross_attention is not None or not is_plain(step):
        return None
    activation, dropouts = _activation(step.transition.layers[1]), _dropouts(step)
    too_large = step.attention.in_feats[1] > WIDEST or (max_steps + 1) * layout.num_src > _MOST
    if activation is None or too_large or (step.training and any(dropouts)):
        return None
    stored = {"stale": "none", "frozen": "halting", "copied": "halting"}[halted]
    if halted == "copied" and (layout.has_empty_rows or not step.has_linear_projection):
        stored = "all"
    norms = () if step.norm is None else (step.attention_norm, step.transition_norm)
    return Settings(
        max_steps=max_steps,
        heads=step.attention.num_heads,
        norm=step.norm,
        eps=tuple(norm.eps for norm in norms) or (0.0, 0.0),
        activation=activation,
        stored=stored,
        low=halting.share if isinstance(halting, ScheduledHalting) else None,
        reads_input=rule.halt_from == "input",
        threshold=rule.threshold,
        forced=rule.forced_remainder,
        learns=learns,
    )


def _knows_halting(halting: nn.Module | None, layout: EdgeLayout) -> bool:
    """Return whether the kernels compute what a halting module computes."""
    if type(halting) is ScheduledHalting:
        fits = halting.steps.shape == (layout.num_dst,) and 0.0 <= halting.share <= 1.0
        return fits and is_untouched(halting)
    if type(halting) is not HaltingUnit or halting.norm is not None:
        return False
    plain = type(halting.linear) is nn.Linear and halting.linear.bias is not None
    return plain and all(map(is_untouched, halting.modules()))


def _activation(layer: nn.Module) -> str | None:
    """Return the name of an activation in the kernels, or None if they do not know it."""
    if not is_untouched(layer):
        return None
    if type(layer) is nn.GELU:
        return "tanh" if layer.approximate == "tanh" else "gelu"
    return "relu" if type(layer) is nn.ReLU else None


def _dropouts(step: Any) -> tuple[float, ...]:
    return step.dropout.p, step.transition.layers[2].p, step.attention.attn_drop
