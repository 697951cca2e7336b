"""A recurrence on a GPU whose host never learns how many nodes are active; its gradient."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from graphut.attention import EdgeLayout
from graphut.attention.functorch import outside_autocast
from graphut.attention.second_derivatives import refuse_second_derivatives
from graphut.attention.triton.function import has_tiles
from graphut.attention.triton.inputs import padded
from graphut.attention.triton.interval import IntervalTables, interval_tables
from graphut.attention.triton.sizes import tile_sizes
from graphut.nn.call_state import LoopOutput, LoopState
from graphut.nn.gpu.async_checks import AsyncFiniteChecks
from graphut.nn.gpu.program import Program
from graphut.nn.gpu.replay import Lease
from graphut.nn.gpu.settings import Settings
from graphut.nn.halting import HaltingUnit, ScheduledHalting
from graphut.nn.ponder import FlopCount
from graphut.nn.rules.act import ACT


def run_program(state: LoopState) -> LoopOutput:
    """Run all steps of a recurrence, and return the results of all nodes."""
    plan, layout = state.plan, state.context.layout
    settings, rule = plan.program, plan.rule
    assert settings is not None and isinstance(rule, ACT)
    inputs = _inputs(state, plan.steps[0], plan.halting, settings)
    out, remainder, steps, errors = _Recurrence.apply(  # type: ignore[no-untyped-call]
        settings, layout, tuple(inputs), *inputs.values()
    )
    assert isinstance(state.checks, AsyncFiniteChecks)
    state.checks.note_first(errors, full_size(len(state.feat)))
    state.context.work = DeviceWork(layout, steps, settings.stored)
    cost = remainder
    if rule.cost == "steps+remainder":
        cost = cost + steps
    return LoopOutput(out, steps, remainder, cost)


def _inputs(state: LoopState, step: Any, halting: Any, settings: Settings) -> dict[str, Tensor]:
    """Return the inputs of a program by name; None is left out.

    A bias has a row for each step, or a single one.
    """
    feat, signals, attention = state.feat, state.signals, step.attention
    device = feat.device.type
    narrow = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else feat.dtype
    first, last = step.transition.layers[0], step.transition.layers[3]
    with outside_autocast(device):
        joint = torch.cat([attention.query.weight, attention.key_value.weight])
        joint_bias = output_bias = None
        if attention.query.bias is not None:
            joint_bias = torch.cat([attention.query.bias, attention.key_value.bias])[None]
            output_bias = attention.output.bias[None]
        if signals is not None and state.plan.halted == "copied" and settings.stored != "all":
            # Keys and values are stored without the signal, by which all values are moved later.
            signals_of = signals.to(attention.query.weight.dtype)
            shift = signals_of @ attention.key_value.weight.t()
            without = torch.cat([shift.new_zeros(len(shift), shift.shape[1] // 2), -shift], 1)
            joint_bias = without if joint_bias is None else joint_bias + without
            moved = shift[:, shift.shape[1] // 2 :] @ attention.output.weight.t()
            output_bias = moved if output_bias is None else output_bias + moved
        found: dict[str, Tensor | None] = {
            "states": feat,
            "encodings": state.encodings,
            "signals": signals,
            "joint_bias": joint_bias,
            "output_bias": output_bias,
            "first_bias": first.bias[None],
            "last_bias": last.bias[None],
        }
        weights = {"joint": joint, "output": attention.output.weight}
        weights |= {"first": first.weight, "last": last.weight}
        found |= {f"{name}_weight": weight.to(narrow) for name, weight in weights.items()}
        for name in ("attention", "transition") if step.norm is not None else ():
            norm = getattr(step, f"{name}_norm")
            found |= {f"{name}_scale": norm.weight, f"{name}_shift": norm.bias}
        if isinstance(halting, HaltingUnit):
            unit = torch.cat([halting.linear.weight[0], halting.linear.bias])
            found["unit"] = unit.float()
        elif isinstance(halting, ScheduledHalting):
            found["schedule"] = halting.steps
    return {name: x.contiguous() for name, x in found.items() if x is not None}


class _Recurrence(torch.autograd.Function):
    """The autograd function of all steps."""

    @staticmethod
    def forward(
        ctx: Any,
        settings: Settings,
        layout: EdgeLayout,
        names: tuple[str, ...],
        *tensors: Tensor,
    ) -> tuple[Tensor, ...]:
        given = dict(zip(names, tensors, strict=True))
        edges, key = _edges(layout, settings, given)
        inputs, num_dst = {**given, **edges}, layout.num_dst
        sizes = {name: _full_size(name, x) for name, x in inputs.items()}
        kinds = tuple((name, sizes[name], x.dtype, x.device) for name, x in inputs.items())

        def make() -> Program:
            with torch.inference_mode(False):
                static = {name: x.new_empty(sizes[name]) for name, x in inputs.items()}
                return Program(settings, static, layout if key else None)

        lease = Lease((settings, kinds, key), make)
        program = lease.program
        with torch.cuda.device_of(tensors[0]):
            program.load(inputs)
            lease.forward.run()
            steps = program.halted[:num_dst].long()
            out, remainder = program.out[:num_dst].clone(), program.remainder[:num_dst].clone()
            errors = program.errors.amin(0, keepdim=True)
        ctx.lease, ctx.names = lease, names
        ctx.save_for_backward(*tensors)
        ctx.mark_non_differentiable(steps, errors)
        return out, remainder, steps, errors

    @staticmethod
    def backward(ctx: Any, to_out: Tensor, to_remainder: Tensor, *_: Any) -> tuple[Any, ...]:
        program, tensors = ctx.lease.program, ctx.saved_tensors
        with torch.no_grad(), torch.cuda.device_of(to_out):
            program.load_gradients(to_out, to_remainder)
            ctx.lease.backward.run()
            found = program.gradients(dict(zip(ctx.names, tensors, strict=True)))
        grads = [found.get(name) for name in ctx.names]
        inputs = [*tensors, to_out, to_remainder]
        refused = refuse_second_derivatives("a recurrence in Triton kernels", grads, inputs)
        return None, None, None, *refused


def _edges(
    layout: EdgeLayout, settings: Settings, given: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], Hashable]:
    """Return the inputs that describe the edges, and, if they are not all, a key of the layout."""
    found = {"sizes": layout.cached(_sizes)}
    weight = given["output_weight"]
    width = padded(weight.shape[1] // settings.heads)
    if not has_tiles(layout, width):
        return found, layout
    tables = layout.cached(_full_tables, width, weight.dtype)
    found |= {"lo": tables.lo, "hi": tables.hi}
    return found | {"row_blocks": tables.rows, "source_blocks": tables.sources}, None


def _sizes(layout: EdgeLayout) -> Tensor:
    """Return the numbers of sources and of destinations, on the device."""
    sizes = torch.empty(2, dtype=torch.int32, device=layout.device)
    for place, number in enumerate((layout.num_src, layout.num_dst)):
        sizes[place].fill_(number)
    return sizes


def _full_tables(layout: EdgeLayout, width: int, dtype: torch.dtype) -> IntervalTables:
    """Return the tables of a layout for attention; the blocks are followed by empty ones."""
    tiles = tile_sizes(width, dtype)
    tables = interval_tables(layout, tiles.block_m, tiles.block_n)
    rows, sources = (
        pad(blocks, (0, 0, 0, full_size(len(blocks)) - len(blocks)))
        for blocks in (tables.rows, tables.sources)
    )
    return replace(tables, rows=rows, sources=sources)


_BY_NODE = {"states", "encodings", "schedule", "lo", "hi"}


def _full_size(name: str, x: Tensor) -> torch.Size:
    """Return the size of an input of a program for all calls with about as many nodes."""
    return torch.Size([full_size(len(x)), *x.shape[1:]]) if name in _BY_NODE else x.shape


def full_size(number: int) -> int:
    """Round a number up, by at most an eighth and 15, to one of few sizes.

    Examples
    --------
    >>> [full_size(number) for number in (1, 16, 100, 130, 2240)]
    [16, 16, 112, 144, 2304]
    """
    unit = max(16, 1 << max(0, number.bit_length() - 4))
    return -(-number // unit) * unit


class DeviceWork(FlopCount):
    """The nodes and edges that the steps of a program computed, counted when they are asked for."""

    def __init__(self, layout: EdgeLayout, steps: Tensor, stored: str) -> None:
        self.projections, self.attended, self.cross_attended = [], [], []
        self._layout, self._steps, self._stored = layout, steps, stored

    @property
    def computed(self) -> Tensor:  # type: ignore[override]
        """Number of nodes that a step computed, summed over all steps."""
        return self._steps.sum()

    @property
    def edges(self) -> Tensor:  # type: ignore[override]
        """Number of their in-edges."""
        return (self._steps * self._layout.in_degrees).sum()

    @property
    def projected(self) -> Tensor:  # type: ignore[override]
        """Number of nodes that were projected to keys and values, summed over all steps."""
        steps, num_src = self._steps, self._layout.num_src
        if self._stored == "all":
            return steps.max() * num_src
        later = steps - 1 if self._stored == "none" else steps.clamp_max(steps.max() - 1)
        return later.sum() + num_src
