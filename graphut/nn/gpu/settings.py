"""Settings of a `Program`, a sequence of launches on a GPU, and whether a recurrence has one."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import _has_any_global_hook

from graphut.attention import EdgeLayout
from graphut.attention.layout import full_size
from graphut.nn.attention import MultiHeadAttention
from graphut.nn.gpu.modes import mode_for
from graphut.nn.halting import HaltingUnit, ScheduledHalting
from graphut.nn.layers import is_hooked
from graphut.nn.noise import kinds_of_noise
from graphut.nn.rules import ACT, EventDriven, FixedDepth, HaltingRule
from graphut.nn.step import UniversalTransformerStep
from graphut.nn.transition import PositionwiseTransition

NORMS = ("attention", "cross", "transition")
# Where values are dropped: in attention, in what it adds, in the hidden layer, in what it adds.
PLACES = ("attention", "output", "cross_attention", "cross_output", "inner", "last")
WIDEST = 2048  # features of a state, a row of which fits in one program
ROUNDS = 8  # of nodes that wake, after which the host learns whether any are still awake
_MOST_LEVELS = 2**20  # of states, which are rounded in float32
_MOST = 2**30 - 1  # twice the number of a step and a node is one int32
# The modules that the kernels compute.
_KNOWN: tuple[type[nn.Module], ...] = (
    *(UniversalTransformerStep, MultiHeadAttention, PositionwiseTransition, nn.Sequential),
    *(nn.Linear, nn.LayerNorm, nn.Dropout, nn.Identity),
)
_METHODS = {"forward", "project", "readout", "value_shift"}
_CALL = nn.Module.__call__


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
    work: torch.dtype = torch.float32  # of the factors of matrix products
    stored: str  # which nodes a step stores beside active ones: "none", "halting" or "all"
    # With the rule `ACT`:
    low: float | None = None  # probability of a scheduled node before it halts; None for a unit
    moves_values: bool = False  # whether the step signal is in biases, not in stored values
    reads_input: bool = False  # whether the halting unit reads the input of the step
    threshold: float = 1.0
    forced: bool = False
    # With `EventDriven`, where a step is one of some rounds:
    tol: float = 0.0
    levels: int = 0  # of `Quantized` states; 0 without


def program_of(call: Any) -> tuple[Settings | None, bool]:
    """Return the settings of a program for a call, if there is one, and whether the host waits.

    The host waits for the device to check values and to count active nodes.
    """
    layer, store, rule = call.layer, call.store, call.rule
    layout, between = store.layout, store.cross_layout
    if not (call.feat.is_cuda and store.replaces_all):
        return None, True
    pairs = [(step.attention, layout) for step in call.steps]
    if between is not None:
        pairs += [(step.cross_attention, between) for step in call.steps if step.cross_attention]
    if not all(
        isinstance(attention, MultiHeadAttention) and attention.uses_triton(edges, call.feat)
        for attention, edges in pairs
    ):
        return None, True
    halts = not (call.runs_on or isinstance(rule, FixedDepth)) and layout.num_dst > 0
    noisy = any(kind.on == "every_step" for kind in kinds_of_noise(layer.noise))
    noisy = noisy or (call.quantize is not None and call.quantize.noise > 0)
    # Global hooks, or a tool that replaces `Module.__call__`, must see each module.
    is_watched = _has_any_global_hook() or nn.Module.__call__ is not _CALL
    may_run = (call.is_waking and not call.is_grouped) or (halts and not call.is_waking)
    may_run = may_run and len(call.steps) == 1
    if not may_run or (layer.training and noisy) or is_watched:
        return None, halts
    program = program_settings(
        call.steps[0],
        rule,
        layer.halting,
        layout,
        halted=call.halted,
        max_steps=call.max_steps,
        learns=torch.is_grad_enabled(),
        levels=0 if call.quantize is None else call.quantize.levels,
    )
    if program is not None:
        device, dtype = call.feat.device.type, call.feat.dtype
        autocast = torch.is_autocast_enabled(device)
        program = replace(program, work=torch.get_autocast_dtype(device) if autocast else dtype)
        program = None if mode_for(program) == "off" else program
    return program, call.is_waking or (halts and program is None)


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
        fits = (
            rule.weighting == "sum"
            and rule.min_steps == 1
            and not levels
            and _knows_halting(halting, layout)
        )
        if halted != "stale":
            # Otherwise the step signal moves all values of a step by one vector.
            moves = step.has_linear_projection and not (layout.has_empty_rows or dropout[0])
            own["stored"] = "halting" if halted == "frozen" or moves else "all"
            own["moves_values"] = halted == "copied" and moves
        own["low"] = halting.share if isinstance(halting, ScheduledHalting) else None
        own |= {"threshold": rule.threshold, "forced": rule.forced_remainder}
        own["reads_input"] = rule.halt_from == "input"
    else:
        return None
    activation = _activation(step.transition.layers[1])
    too_large = (
        step.attention.in_feats[1] > WIDEST or (max_steps + 1) * full_size(layout.num_src) > _MOST
    )
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


def is_untouched(module: nn.Module) -> bool:
    """Return whether a module has neither hooks nor methods of its own."""
    return not is_hooked(module) and _METHODS.isdisjoint(vars(module))


def is_plain(step: UniversalTransformerStep) -> bool:
    """Return whether a step has no hooks and only graphut's own parts, but for the activation."""
    transition = step.transition
    if not (
        step.residual and step.activation is None and type(transition) is PositionwiseTransition
    ):
        return False
    kinds = [type(layer) for layer in transition.layers]
    if kinds[:1] + kinds[2:] != [nn.Linear, nn.Dropout, nn.Linear]:
        return False
    activation = set(transition.layers[1].modules())
    return all(
        type(module) in _KNOWN
        and is_untouched(module)
        and getattr(module, "degree_scale", None) is None
        for module in step.modules()
        if module not in activation
    )
