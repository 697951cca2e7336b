"""Settings of a `Program`, a sequence of launches on a GPU, and whether a call has one.

The mode chooses between CUDA graphs, single launches and the general loop.
"""

import os
import warnings
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import _has_any_global_hook

from graphut.attention import EdgeLayout
from graphut.attention.layout import full_size
from graphut.nn.halting import ScheduledHalting
from graphut.nn.layers import MultiHeadAttention, PositionwiseTransition, is_hooked
from graphut.nn.rules import ACT, FixedDepth
from graphut.nn.step import HaltingUnit, UniversalTransformerStep

NORMS = ("attention", "cross", "transition")
# Where values are dropped: in attention, in what it adds, in the hidden layer, in what it adds.
PLACES = ("attention", "output", "cross_attention", "cross_output", "inner", "last")
WIDEST = 2048  # features of a state, a row of which fits in one program
_MOST = 2**31 - 1  # the code of an error in a step at a node is one int32
# The modules that the kernels compute.
_KNOWN: tuple[type[nn.Module], ...] = (
    *(UniversalTransformerStep, MultiHeadAttention, PositionwiseTransition, nn.Sequential),
    *(nn.Linear, nn.LayerNorm, nn.Dropout, nn.Identity, nn.GELU, nn.ReLU),
)
_ACTIVATIONS = {nn.GELU: "gelu", nn.ReLU: "relu"}
MODES = ("off", "launches", "graphs")
_mode: ContextVar[str | None] = ContextVar("graphut_gpu", default=None)
# For settings of a program whose kernels or CUDA graph failed: the mode that remains.
_limits: dict[Hashable, str] = {}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The computation of a program, except for the sizes of its inputs."""

    max_steps: int
    heads: tuple[int, ...]  # of self-attention and of any cross-attention
    norm: str  # "pre" or "post"
    eps: tuple[float, ...]  # of each of `NORMS`
    dropout: tuple[float, ...]  # in each of `PLACES`
    activation: str  # as in `graphut.nn.gpu.kernels.products`
    learns: bool  # whether there is a backward pass
    work: torch.dtype = torch.float32  # of the factors of matrix products
    stores_all: bool  # whether each step stores all nodes, not only active and halting ones
    moves_values: bool  # whether the step signal is in biases, not in stored values
    low: float | None = None  # probability of a scheduled node before it halts; None for a unit
    threshold: float = 1.0


def program_of(call: Any) -> tuple[Settings | None, bool]:
    """Return the settings of a program for a call, if there is one, and whether the host waits.

    The host waits for the device to check values and to count active nodes.
    """
    store, steps = call.store, call.steps
    pairs = [(step.attention, store.layout) for step in steps]
    if store.cross_layout is not None:
        between = store.cross_layout
        pairs += [(step.cross_attention, between) for step in steps if step.cross_attention]
    if store.layout.halo is not None or not all(
        isinstance(attention, MultiHeadAttention) and attention.uses_triton(edges, call.feat)
        for attention, edges in pairs
    ):
        return None, True
    if isinstance(call.rule, FixedDepth):
        return None, False
    settings = settings_of(call)
    if settings is not None and mode_for(settings) == "off":
        settings = None
    return settings, settings is None


def settings_of(call: Any) -> Settings | None:
    """Return the settings of a program for a call, or None if there is none for it.

    The step must be as graphut makes it, without hooks, noise and learned step signals, and the
    rule `ACT` as in its paper, whose probabilities are those of a unit or of a schedule.
    """
    layout, rule, step, halting = call.store.layout, call.rule, call.steps[0], call.halting
    is_usual = type(rule) is ACT and rule.weighting == "sum" and rule.halt_from == "input"
    is_usual = is_usual and rule.min_steps == 1 and rule.forced_remainder
    is_usual = is_usual and call.halted != "stale" and not (call.quantize or call.runs_on)
    learned = call.signals is not None and call.signals.requires_grad
    is_varied = len(call.steps) > 1 or learned or "every_step" in call.noise
    if not is_usual or is_varied or _has_any_global_hook():
        return None
    too_large = (call.max_steps + 1) * full_size(layout.num_src) > _MOST
    if too_large or not (layout.num_dst and _is_plain(step) and _knows_halting(halting, layout)):
        return None
    dropout, cross, copies = tuple(_dropouts(step)), step.cross_attention, call.halted == "copied"
    # Whether the step signal moves all values of a step by one vector.
    moves = step.has_linear_projection and not (layout.has_empty_rows or dropout[0])
    layers = [step.attention] if cross is None else [step.attention, cross]
    device = call.feat.device.type
    autocast = torch.is_autocast_enabled(device)
    return Settings(
        max_steps=call.max_steps,
        heads=tuple(layer.num_heads for layer in layers),
        norm=step.norm,
        eps=tuple(getattr(getattr(step, f"{name}_norm"), "eps", 0.0) for name in NORMS),
        dropout=dropout,
        activation=_ACTIVATIONS[type(step.transition.layers[1])],
        learns=torch.is_grad_enabled(),
        work=torch.get_autocast_dtype(device) if autocast else call.feat.dtype,
        stores_all=copies and not moves,
        moves_values=copies and moves,
        low=halting.share if isinstance(halting, ScheduledHalting) else None,
        threshold=rule.threshold,
    )


def _knows_halting(halting: nn.Module, layout: EdgeLayout) -> bool:
    """Return whether the kernels compute what a halting module computes."""
    if any(map(is_hooked, halting.modules())):
        return False
    if type(halting) is ScheduledHalting:
        return halting.steps.shape == (layout.num_dst,) and 0.0 <= halting.share <= 1.0
    if type(halting) is not HaltingUnit or halting.norm is not None:
        return False
    return type(halting.linear) is nn.Linear and halting.linear.bias is not None


def _dropouts(step: Any) -> Iterator[float]:
    """Return the probability that something is dropped, in each of `PLACES`."""
    for layer in (step.attention, step.cross_attention):
        yield layer.attn_drop if layer is not None and layer.training else 0.0
        yield step.dropout.p if step.dropout.training else 0.0
    for layer in (step.transition.layers[2], step.dropout):
        yield layer.p if layer.training else 0.0


def _is_plain(step: UniversalTransformerStep) -> bool:
    """Return whether a step has no hooks and only parts that the kernels compute."""
    if not (step.residual and step.norm) or step.activation is not None:
        return False
    if type(step.transition) is not PositionwiseTransition:
        return False
    first, activation, *others = step.transition.layers
    return (
        [type(layer) for layer in (first, *others)] == [nn.Linear, nn.Dropout, nn.Linear]
        and type(activation) in _ACTIVATIONS
        and getattr(activation, "approximate", "none") == "none"
        and step.attention.in_feats[1] <= WIDEST
        and all(type(x) in _KNOWN and not is_hooked(x) for x in step.modules())
        and all(getattr(x, "degree_scale", None) is None for x in step.modules())
    )


@contextmanager
def mode(name: str) -> Iterator[None]:
    """Choose how recurrences run on a GPU, inside a `with` statement.

    The environment variable `GRAPHUT_GPU` chooses it for a whole process. The results are the same
    except for rounding.

    Parameters
    ----------
    name
        `"graphs"`, the default: the kernels of all steps are launched as one CUDA graph.
        `"launches"`: the same kernels, launched one by one. `"off"`: the general loop, in which the
        host waits in each step.

    Raises
    ------
    ValueError
        If `name` is none of these.

    Examples
    --------
    >>> from graphut.nn import gpu
    >>> with gpu.mode("launches"):
    ...     pass  # calls of recurrences
    """
    token = _mode.set(_check(name, "name"))
    try:
        yield
    finally:
        _mode.reset(token)


def mode_for(settings: Hashable) -> str:
    """Return the mode of a call whose program has these settings."""
    chosen = _mode.get() or _check(os.environ.get("GRAPHUT_GPU", "graphs"), "GRAPHUT_GPU")
    return min(chosen, _limits.get(settings, "graphs"), key=MODES.index)


def limit_mode(settings: Hashable, name: str, error: BaseException) -> None:
    """Use at most the mode `name` for these settings from now on, and say why."""
    _limits[settings] = name
    does = "makes its launches one by one" if name == "launches" else "runs in the general loop"
    reason = " ".join(str(error).split())[-300:]
    warnings.warn(
        f"a recurrence on a GPU {does}, which is slower: {type(error).__name__}: {reason}. "
        f"GRAPHUT_GPU={name} avoids this warning.",
        RuntimeWarning,
        stacklevel=2,
    )


def _check(name: str, what: str) -> str:
    if name not in MODES:
        raise ValueError(f"{what} must be one of {', '.join(MODES)}, got {name!r}")
    return name
