"""Settings of a `Program`, a sequence of launches on a GPU, and whether a recurrence has one."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn

from graphut.attention import EdgeLayout
from graphut.nn.halting import HaltingUnit, ScheduledHalting
from graphut.nn.plain_step import is_plain, is_untouched
from graphut.nn.rules import ACT, EventDriven, HaltingRule

NORMS = ("attention", "cross", "transition")
# Where values are dropped: in attention, in what it adds, in the hidden layer, in what it adds.
PLACES = ("attention", "output", "cross_attention", "cross_output", "inner", "last")
WIDEST = 2048  # features of a state, a row of which fits in one program
ROUNDS = 8  # of nodes that wake, after which the host learns whether any are still awake
_MOST_LEVELS = 2**20  # of states, which are rounded in float32
_MOST = 2**30 - 1  # twice the number of a step and a node is one int32


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The computation of a program, except for the sizes of its inputs."""

    max_steps: int
    heads: tuple[int, ...]  # of self-attention and of any cross-attention
    crosses: bool  # whether there is cross-attention
    norm: str | None
    eps: tuple[float, ...]  # of each of `NORMS`
    dropout: tuple[float, ...]  # in each of `PLACES`
    activation: str  # as in `graphut.nn.gpu.kernels.products`
    learns: bool  # whether there is a backward pass
    stored: str  # which nodes a step stores beside active ones: "none", "halting" or "all"
    # With the rule `ACT`:
    low: float | None = None  # probability of a scheduled node before it halts; None for a unit
    reads_input: bool = False  # whether the halting unit reads the input of the step
    threshold: float = 1.0
    forced: bool = False
    # With `EventDriven`, where a step is one of some rounds:
    tol: float = 0.0
    levels: int = 0  # of `Quantized` states; 0 without


def program_settings(
    step: Any,
    rule: HaltingRule,
    halting: nn.Module | None,
    layout: EdgeLayout,
    *,
    halted: str,
    max_steps: int,
    learns: bool,
    levels: int = 0,
) -> Settings | None:
    """Return the settings of a program for a recurrence, or None if there is none for it.

    The step must be as graphut makes it, without hooks, and the rule `ACT` with weighted sums,
    whose probabilities are those of a unit or of a schedule. Or the rule is `EventDriven`, without
    dropout and gradients.
    """
    if not is_plain(step):
        return None
    dropout, cross = tuple(_dropouts(step)), step.cross_attention
    own: dict[str, Any] = {"stored": "none"}
    if type(rule) is EventDriven:
        fits = not (learns or any(dropout) or levels > _MOST_LEVELS) and layout.num_dst > 0
        max_steps = min(ROUNDS, max_steps)
        own |= {"tol": rule.tol, "levels": levels}
    elif type(rule) is ACT:
        fits = rule.weighting == "sum" and not levels and _knows_halting(halting, layout)
        if halted != "stale":
            # Otherwise the step signal moves all values of a step by one vector.
            moves = step.has_linear_projection and not (layout.has_empty_rows or dropout[0])
            own["stored"] = "halting" if halted == "frozen" or moves else "all"
        own["low"] = halting.share if isinstance(halting, ScheduledHalting) else None
        own |= {"threshold": rule.threshold, "forced": rule.forced_remainder}
        own["reads_input"] = rule.halt_from == "input"
    else:
        return None
    activation = _activation(step.transition.layers[1])
    too_large = step.attention.in_feats[1] > WIDEST or (max_steps + 1) * layout.num_src > _MOST
    if not fits or activation is None or too_large:
        return None
    layers = [step.attention] if cross is None else [step.attention, cross]
    return Settings(
        max_steps=max_steps,
        heads=tuple(layer.num_heads for layer in layers),
        crosses=cross is not None,
        norm=step.norm,
        eps=tuple(getattr(getattr(step, f"{name}_norm"), "eps", 0.0) for name in NORMS),
        dropout=dropout,
        activation=activation,
        learns=learns,
        **own,
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
    if type(layer) is nn.GELU and layer.approximate == "none":
        return "gelu"
    return "relu" if type(layer) is nn.ReLU else None


def _dropouts(step: Any) -> Iterator[float]:
    """Return the probability that something is dropped, in each of `PLACES`."""
    for layer in (step.attention, step.cross_attention):
        yield layer.attn_drop if layer is not None and layer.training else 0.0
        yield step.dropout.p if step.dropout.training else 0.0
    for layer in (step.transition.layers[2], step.dropout):
        yield layer.p if layer.training else 0.0
