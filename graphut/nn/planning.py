"""Make the plans of calls, and keep them for later calls.

A call looks its plan up, and then the loop reads the plan and tensors only. A plan is kept with the
layout of the edges, as long as the settings of the layer do not change.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook
from torch.utils.hooks import RemovableHandle

from graphut.attention import EdgeLayout
from graphut.attention.tracing import (
    is_capturing,
    is_exporting,
    is_intercepted,
    is_tracing,
)
from graphut.nn.attention import MultiHeadAttention
from graphut.nn.gpu.settings import program_settings
from graphut.nn.halting import ScheduledHalting
from graphut.nn.hooked_step import HookedStep
from graphut.nn.input_checks import check_feat, first_parameter
from graphut.nn.module_checks import check_event_driven, check_sharding
from graphut.nn.noise import InputNoise, kinds_of_noise
from graphut.nn.plain_step import PlainStep, is_plain, plain_halting
from graphut.nn.plan import Options, Plan
from graphut.nn.quantized import Quantized
from graphut.nn.rules import ACT, EventDriven, FixedDepth, HaltingRule
from graphut.nn.signals import Signal, fixed_step_signals, position_table
from graphut.nn.step import UniversalTransformerStep

_MOST_PLANS = 8  # of one layer on one layout
_CALL = nn.Module.__call__
_NAMES = (  # the settings of an `AdaptiveRecurrence` beside its modules
    *("_rule", "_evaluation_rule", "_max_steps", "halted", "inject_input", "noise", "quantize"),
    *("checkpoint_steps", "training", "position_signal", "step_signal", "halting"),
)


class Recurrence(Protocol):
    """The settings of an `AdaptiveRecurrence`, whose module imports this one."""

    halting: nn.Module | None
    halted: str
    position_signal: Signal | None
    step_signal: Signal | None
    inject_input: bool
    noise: InputNoise | Sequence[InputNoise] | None
    quantize: Quantized | None
    checkpoint_steps: bool
    training: bool

    @property
    def step(self) -> nn.Module: ...

    @property
    def steps(self) -> list[UniversalTransformerStep]: ...

    @property
    def rule(self) -> HaltingRule: ...

    @property
    def evaluation_rule(self) -> HaltingRule: ...

    @property
    def active_rule(self) -> HaltingRule: ...

    @property
    def max_steps(self) -> int: ...


def plan_for(
    layer: Recurrence,
    layout: EdgeLayout,
    between: EdgeLayout | None,
    feat: Tensor,
    options: Options,
) -> Plan:
    """Return the plan of an earlier call with the same settings, or make one."""
    if is_intercepted() or _are_modules_watched():
        return make_plan(layer, feat, layout, between, options)
    device = feat.device
    autocast = torch._C._is_any_autocast_enabled() and (
        torch.is_autocast_enabled(device.type) and torch.get_autocast_dtype(device.type)
    )
    key = (
        options,
        layer.training,
        torch.is_grad_enabled(),
        feat.dtype,
        device,
        autocast,
        feat.is_cuda and is_capturing(),
        between is None or between.has_empty_rows,
    )
    plans = layout.plans.get(layer)
    if plans is None:
        plans = layout.plans.setdefault(layer, {})
    kept: _KeptPlan | None = plans.get(key)
    if kept is not None and kept.is_valid(layer):
        if not kept.plan.fits(feat):
            _check_features(layer, layout, feat)
        return kept.plan
    plan = make_plan(layer, feat, layout, between, options)
    if len(plans) >= _MOST_PLANS:
        plans.clear()
    plans[key] = _KeptPlan(layer, plan)
    return plan


class _KeptPlan:
    """A plan, and the settings of the layer that it was made from."""

    def __init__(self, layer: Recurrence, plan: Plan) -> None:
        self.plan = plan
        self._modules = [] if layer.halting is None else [*layer.halting.modules()]
        for step in layer.steps:
            self._modules += step.modules()
        # Maps have no settings: their weights are read in each call.
        states = [vars(each) for each in self._modules if type(each) is not nn.Linear]
        self._states = [(state, state["_modules"]) for state in states]
        self._settings = self._read_settings(layer)
        self._hooks, self._hook_id = self._count_hooks(), RemovableHandle.next_id

    def is_valid(self, layer: Recurrence) -> bool:
        """Return whether the layer has the same settings, modules and hooks as before."""
        try:
            if self._settings != self._read_settings(layer):
                return False
        except (RuntimeError, TypeError, ValueError):  # tensors or arrays among the attributes
            return False
        # Torch numbers all hooks. Without a new one, only the removal of hooks is possible.
        if self._hook_id != RemovableHandle.next_id or any(self._hooks):
            if self._hooks != self._count_hooks():
                return False
            self._hook_id = RemovableHandle.next_id
        return True

    def _read_settings(self, layer: Recurrence) -> list[Any]:
        values = [*map(vars(layer).get, _NAMES), *vars(layer)["_modules"].values()]
        values += map(type, self._modules)
        values += map(len, map(vars, self._modules))
        for state, children in self._states:
            values += state.values()
            values += children.values()
        return values

    def _count_hooks(self) -> list[int]:
        kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
        return [len(vars(module)[kind]) for module in self._modules for kind in kinds]


def _are_modules_watched() -> bool:
    """Return whether global hooks, or a tool that replaces `Module.__call__`, see each module."""
    return bool(_has_any_global_hook()) or nn.Module.__call__ is not _CALL


def make_plan(
    layer: Recurrence,
    feat: Tensor,
    layout: EdgeLayout | None = None,
    between: EdgeLayout | None = None,
    options: Options = Options(),  # noqa: B008, a frozen value
) -> Plan:
    """Make the plan of a call, or of a decoder with a key/value cache, which has no `layout`."""
    if layout is not None:
        _check_features(layer, layout, feat)
    rule, halting, steps = layer.active_rule, layer.halting, layer.steps
    waking, max_steps = isinstance(rule, EventDriven), layer.max_steps
    if isinstance(rule, EventDriven):  # the layer may have changed since the rule was set
        check_event_driven(rule, layer.step, halting, layer.step_signal)
        max_steps = rule.max_rounds or max_steps
    _check_halting_is_possible(layer, rule)
    if isinstance(halting, ScheduledHalting) and isinstance(rule, ACT):
        halting.check(rule.threshold, layer.max_steps)
    again = layer.checkpoint_steps and torch.is_grad_enabled() and not torch.compiler.is_compiling()
    called: Sequence[Any] = steps
    if layout is not None and (again or any(step.is_hooked for step in steps)):
        called = [HookedStep(step, checkpointed=again) for step in steps]
    probability: Any = halting
    linear = called is steps and all(step.has_linear_projection for step in steps)
    runs_all = layer.halted == "running" or isinstance(rule, FixedDepth)
    frontier = "masked" if runs_all or (layout is not None and not layout.num_dst) else "halting"
    frontier = "waking" if waking else frontier
    # With a rule that ignores probabilities, the module reads the state that it was trained on.
    readers = [each for each in (rule, layer.rule, layer.evaluation_rule) if each.uses_probability]
    signals = None
    if layer.step_signal is not None:
        signals = fixed_step_signals(layer.step_signal, layer.max_steps, feat)
    waits, in_place, cross_in_place, program = True, 0, False, None
    halted = "frozen" if layer.step_signal is None and layer.halted == "copied" else layer.halted
    if layout is not None and not (options.is_list or called is not steps or is_capturing()):
        heads = [_heads_in_place(step.attention, layout, feat) for step in steps]
        # All steps must agree: one may be in training mode and another in evaluation mode.
        if not (options.record or options.by_edge):
            in_place = 0 if 0 in heads else heads[0]
            if _use_triton(steps, layout, between, feat):
                may_wake = waking and not options.grouped
                if (may_wake or frontier == "halting") and not _are_modules_watched():
                    program = _program(layer, rule, layout, halted, max_steps)
                waits = waking or (frontier == "halting" and program is None)
        if waits and between is not None and not options.get_attention:
            crossing = [_heads_in_place(step.cross_attention, between, feat) for step in steps]
            cross_in_place = 0 not in crossing
    skips_modules = in_place and (between is None or cross_in_place) and all(map(is_plain, steps))
    if skips_modules and not _are_modules_watched():
        called, probability = [PlainStep(step) for step in steps], plain_halting(halting, feat)
    step = steps[0]
    weight_of, name = first_parameter(step.attention)
    return Plan(
        rule=rule,
        max_steps=max_steps,
        steps=called,
        frontier=frontier,
        halted=halted,
        has_linear_projection=linear,
        halting=probability if rule.uses_probability or options.record else None,
        halt_from=(readers or [rule])[0].halt_from,
        position_signal=layer.position_signal,
        step_signal=layer.step_signal if signals is None else None,
        signals=signals,
        signal_of=None if signals is None else signals.unbind(),
        positions=position_table(layer.position_signal, feat),
        inject_input=layer.inject_input,
        noise=layer.noise,
        training=layer.training,
        quantize=layer.quantize,
        is_traced=is_tracing(),
        waits=waits,
        in_place=in_place,
        cross_in_place=cross_in_place,
        program=program,
        node_flops=step.node_flops,
        key_value_flops=step.attention.key_value_flops,
        edge_flops=step.attention.edge_flops,
        shape=feat.shape,
        parameters=weight_of,
        parameter=name,
    )


def _program(
    layer: Recurrence, rule: HaltingRule, layout: EdgeLayout, halted: str, max_steps: int
) -> Any:
    """Return the settings of a program for a GPU, or None if the loop must call modules."""
    quantize = layer.quantize
    noisy = any(kind.on == "every_step" for kind in kinds_of_noise(layer.noise))
    noisy = noisy or (quantize is not None and quantize.noise > 0)
    if layer.training and noisy:
        return None
    return program_settings(
        layer.steps[0],
        rule,
        layer.halting,
        layout,
        halted=halted,
        max_steps=max_steps,
        learns=torch.is_grad_enabled(),
        levels=0 if quantize is None else quantize.levels,
    )


def _check_features(layer: Recurrence, layout: EdgeLayout, feat: Tensor) -> None:
    num_src, num_dst, attention = layout.num_src, layout.num_dst, layer.steps[0].attention
    if num_dst > num_src:
        raise ValueError(
            f"the graph has {num_dst} destination and {num_src} source nodes; in a recurrence "
            "every destination must be a source too"
        )
    # With the nodes of a part, those of other processes have no features here.
    nodes = num_src if layout.halo is None else num_dst
    check_feat(feat, "source", nodes, attention.in_feats[1], attention)


def _check_halting_is_possible(layer: Recurrence, rule: HaltingRule) -> None:
    """Raise an error if nodes halt at steps that the host cannot know."""
    if isinstance(rule, FixedDepth):
        return
    check_sharding(layer.step, layer.halting)
    if not needs_host(layer):
        return
    for happens, name in ((is_capturing(), "a CUDA graph"), (is_exporting(), "torch.export")):
        if happens:
            raise RuntimeError(
                f"{name} cannot record how many nodes halt in each step: use the rule "
                "FixedDepth() or halted='running'"
            )


def needs_host(layer: Recurrence) -> bool:
    """Return whether the number of steps depends on the values of features."""
    rule = layer.active_rule
    return isinstance(rule, EventDriven) or (
        layer.halted != "running" and not isinstance(rule, FixedDepth)
    )


def _heads_in_place(attention: Any, layout: EdgeLayout, feat: Tensor) -> int:
    """Return the number of heads if a `KeyValueMemory` can replace the table, else 0."""
    if isinstance(attention, MultiHeadAttention) and attention.fits_memory(layout, feat):
        return attention.num_heads
    return 0


def _use_triton(
    steps: Sequence[UniversalTransformerStep],
    layout: EdgeLayout,
    between: EdgeLayout | None,
    feat: Tensor,
) -> bool:
    """Return whether Triton kernels compute all attention layers."""
    if layout.halo is not None:
        return False
    pairs = [(step.attention, layout) for step in steps]
    if between is not None:
        pairs += [(step.cross_attention, between) for step in steps if step.cross_attention]
    return all(
        isinstance(attention, MultiHeadAttention) and attention.uses_triton(edges, feat)
        for attention, edges in pairs
    )
