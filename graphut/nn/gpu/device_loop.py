"""A recurrence on a GPU whose host never learns how many nodes are active; its gradient."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import pad

from graphut.attention import EdgeLayout
from graphut.attention.first_derivatives import once_differentiable
from graphut.attention.tracing import outside_autocast
from graphut.attention.triton import csr
from graphut.attention.triton.function import kernels_of
from graphut.attention.triton.inputs import padded
from graphut.attention.triton.interval import IntervalTables, interval_tables
from graphut.attention.triton.sizes import tile_sizes
from graphut.nn.call import Call, LoopOutput
from graphut.nn.gpu.async_checks import AsyncFiniteChecks
from graphut.nn.gpu.program import Program
from graphut.nn.gpu.replay import Lease, full_size
from graphut.nn.gpu.settings import NORMS, PLACES, Settings
from graphut.nn.halting import HaltingUnit, ScheduledHalting
from graphut.nn.ponder import FlopCount
from graphut.nn.rules.probability import ACT

Layouts: TypeAlias = tuple[EdgeLayout, EdgeLayout | None]  # of self- and of cross-attention


def run_program(call: Call) -> LoopOutput:
    """Run all steps of a recurrence, and return the results of all nodes."""
    layouts = call.store.layout, call.store.cross_layout
    settings, rule = call.program, call.rule
    assert settings is not None and isinstance(rule, ACT)
    inputs = program_inputs(call, call.steps[0], call.halting, settings)
    out, remainder, steps, errors = _Recurrence.apply(  # type: ignore[no-untyped-call]
        settings, layouts, tuple(inputs), *inputs.values()
    )
    assert isinstance(call.checks, AsyncFiniteChecks)
    call.checks.note(errors, full_size(len(call.feat)))
    call.store.work = DeviceWork(layouts, steps, settings.stored)
    cost = remainder
    if rule.cost == "steps+remainder":
        cost = cost + steps
    return LoopOutput(out, steps, remainder, cost)


def program_inputs(call: Call, step: Any, halting: Any, settings: Settings) -> dict[str, Tensor]:
    """Return the inputs of a program by name; a bias has a row for each step, or a single one."""
    feat, signals, attention, cross = call.feat, call.signals, step.attention, None
    device = feat.device.type
    narrow = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else feat.dtype
    maps = {"first": step.transition.layers[0], "last": step.transition.layers[3]}
    maps["output"] = attention.output
    found: dict[str, Tensor | None] = {"states": feat, "encodings": call.encodings}
    found["signals"] = signals
    if settings.crosses:
        cross, encoded = step.cross_attention, call.store.encoded
        assert encoded is not None
        found["encoded"] = encoded.stored(cross).to(narrow)
        maps |= {"cross_query": cross.query, "cross_output": cross.output}
    with outside_autocast(device):
        for name, layer in maps.items():
            found[f"{name}_weight"] = layer.weight.to(narrow)
            found[f"{name}_bias"] = None if layer.bias is None else layer.bias[None]
        joint = [attention.query, attention.key_value]
        found["joint_weight"] = torch.cat([layer.weight for layer in joint]).to(narrow)
        if attention.query.bias is not None:
            found["joint_bias"] = torch.cat([layer.bias for layer in joint])[None]
        if signals is not None and call.halted == "copied" and settings.stored != "all":
            # Keys and values are stored without the signal, by which all values are moved later.
            shift = signals @ attention.key_value.weight.t()
            values = shift.shape[1] // 2
            without = pad(-shift, (values, 0))
            moved = shift[:, values:] @ attention.output.weight.t()
            for name, change in (("joint_bias", without), ("output_bias", moved)):
                bias = found.get(name)
                found[name] = change if bias is None else bias + change
        for name in NORMS if settings.norm is not None else ():
            norm = getattr(step, f"{name}_norm")
            if norm is not None:
                found |= {f"{name}_scale": norm.weight, f"{name}_shift": norm.bias}
        if isinstance(halting, HaltingUnit):
            found["unit"] = torch.cat([halting.linear.weight[0], halting.linear.bias]).float()
        elif isinstance(halting, ScheduledHalting):
            found["schedule"] = halting.steps
        if any(settings.dropout):
            shape = settings.max_steps, len(PLACES), 2  # 16 bytes, of which the kernels read 8
            found["seeds"] = torch.randint(2**62, shape, device=feat.device)
    return {name: x.contiguous() for name, x in found.items() if x is not None}


class _Recurrence(torch.autograd.Function):
    """The autograd function of all steps."""

    @staticmethod
    def forward(
        ctx: Any, settings: Settings, layouts: Layouts, names: tuple[str, ...], *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        given = dict(zip(names, tensors, strict=True))
        inputs, num_dst = {**given, "sizes": layouts[0].cached(node_counts)}, layouts[0].num_dst
        edges = [_edges(layouts, i, settings, given) for i in range(2)]
        others = tuple(None if x else y for x, y in zip(edges, layouts, strict=True))
        inputs |= edges[0] | edges[1]
        lease = Lease(Program, settings, inputs, others)
        program = lease.program
        with torch.cuda.device_of(tensors[0]):
            program.load(inputs)
            lease.forward.run()
            steps = program.whole["halted"][:num_dst].long()
            out, remainder = (program.whole[x][:num_dst].clone() for x in ("out", "remainder"))
            errors = program.whole["errors"].amin(0, keepdim=True)
        ctx.lease, ctx.names = lease, names
        ctx.save_for_backward(*tensors)
        ctx.mark_non_differentiable(steps, errors)
        return out, remainder, steps, errors

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, to_out: Tensor, to_remainder: Tensor, *_: Any) -> tuple[Any, ...]:
        program, tensors = ctx.lease.program, ctx.saved_tensors
        with torch.cuda.device_of(to_out):
            program.load_gradients(to_out, to_remainder)
            ctx.lease.backward.run()
            found = program.gradients(dict(zip(ctx.names, tensors, strict=True)))
        return None, None, None, *(found.get(name) for name in ctx.names)


def _edges(
    layouts: Layouts, index: int, settings: Settings, given: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return the inputs that describe the edges; none if the kernels read the layout instead."""
    layout, prefix = layouts[index], ("", "cross_")[index]
    if layout is None:
        return {}
    weight = given[f"{prefix}output_weight"]
    width = padded(weight.shape[1] // settings.heads[index])
    if kernels_of(layout, width) is csr:
        return {}
    drops = settings.dropout[PLACES.index(f"{prefix}attention")] > 0
    tables = layout.cached(_full_tables, width, weight.dtype, drops)
    return {f"{prefix}{name}": x for name, x in tables._asdict().items() if x is not None}


def node_counts(layout: EdgeLayout) -> Tensor:
    """Return the numbers of sources and of destinations, on the device."""
    sizes = torch.empty(2, dtype=torch.int32, device=layout.device)
    for place, number in enumerate((layout.num_src, layout.num_dst)):
        sizes[place].fill_(number)
    return sizes


def _full_tables(
    layout: EdgeLayout, width: int, dtype: torch.dtype, by_edge: bool
) -> IntervalTables:
    """Return the tables of a layout for attention; the blocks are followed by empty ones."""
    tiles = tile_sizes(width, dtype, by_edge=by_edge)
    tables = interval_tables(layout, tiles.block_m, tiles.block_n, by_edge)
    row_blocks, source_blocks = (
        pad(blocks, (0, 0, 0, full_size(len(blocks)) - len(blocks)))
        for blocks in (tables.row_blocks, tables.source_blocks)
    )
    return tables._replace(ids=None, row_blocks=row_blocks, source_blocks=source_blocks)


class DeviceWork(FlopCount):
    """The nodes and edges that the steps of a program computed, counted when they are asked for."""

    def __init__(self, layouts: Layouts, steps: Tensor, stored: str) -> None:
        self.projections, self.attended, self.cross_attended = [], [], []
        self._layouts, self._steps, self._stored = layouts, steps, stored

    @property
    def computed(self) -> Tensor:  # type: ignore[override]
        """Number of nodes that a step computed, summed over all steps."""
        return self._steps.sum()

    @property
    def edges(self) -> Tensor:  # type: ignore[override]
        """Number of their in-edges, including cross-attention."""
        degrees = sum(layout.in_degrees for layout in self._layouts if layout is not None)
        return (self._steps * degrees).sum()

    @property
    def projected(self) -> Tensor:  # type: ignore[override]
        """Number of nodes that were projected to keys and values, summed over all steps."""
        steps, num_src = self._steps, self._layouts[0].num_src
        if self._stored == "all":
            return steps.max() * num_src
        later = steps - 1 if self._stored == "none" else steps.clamp_max(steps.max() - 1)
        return later.sum() + num_src
