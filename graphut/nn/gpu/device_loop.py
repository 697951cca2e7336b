"""Run a recurrence as a program on a GPU, and compute its gradient."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor

from graphut.attention import EdgeLayout
from graphut.attention.first_derivatives import refuse_second_derivatives
from graphut.attention.layout import node_counts
from graphut.attention.triton.launches import edges_of, tensors_of
from graphut.nn.gpu.program import copy_by_dtype
from graphut.nn.gpu.replay import Lease
from graphut.nn.gpu.settings import NORMS, PLACES, Settings
from graphut.nn.halting import ScheduledHalting
from graphut.nn.loop import LoopOutput
from graphut.nn.ponder import FlopCount
from graphut.nn.rules.base import ACT
from graphut.nn.step import HaltingUnit

Layouts: TypeAlias = tuple[EdgeLayout, EdgeLayout | None]  # of self- and of cross-attention


def run_program(call: Any) -> tuple[LoopOutput, Tensor]:
    """Run all steps of a recurrence; return the results of all nodes, and codes of errors."""
    settings, layouts = call.program, (call.store.layout, call.store.cross_layout)
    inputs, rule = program_inputs(call, settings), cast(ACT, call.rule)
    out, remainder, steps, errors = _Recurrence.apply(  # type: ignore[no-untyped-call]
        settings, layouts, tuple(inputs), *inputs.values()
    )
    call.store.work = DeviceWork(layouts, steps, settings.stores_all)
    cost = remainder + steps if rule.cost == "steps+remainder" else remainder
    return LoopOutput(out, steps, remainder, cost), errors


def program_inputs(call: Any, settings: Settings) -> dict[str, Tensor]:
    """Return the inputs of a program by name: tensors of the call, and parameters."""
    step: Any = call.steps[0]
    found = {"states": call.feat, "encodings": call.encodings, "signals": call.signals}
    layers = {"query": step.attention.query, "key_value": step.attention.key_value}
    layers |= {"output": step.attention.output}
    layers |= {"first": step.transition.layers[0], "last": step.transition.layers[3]}
    if step.cross_attention is not None:
        cross, encoded = step.cross_attention, call.store.encoded
        assert encoded is not None
        found["encoded"] = encoded.stored(cross).to(settings.work)
        layers |= {"cross_query": cross.query, "cross_output": cross.output}
    layers |= {f"{name}_norm": getattr(step, f"{name}_norm") for name in NORMS}
    if isinstance(call.halting, HaltingUnit):
        layers["unit"] = call.halting.linear
    elif isinstance(call.halting, ScheduledHalting):
        found["schedule"] = call.halting.steps
    for name, layer in layers.items():
        found |= {f"{name}_{kind}": getattr(layer, kind, None) for kind in ("weight", "bias")}
    if any(settings.dropout):
        shape = settings.max_steps, len(PLACES), 2  # 16 bytes, of which the kernels read 8
        found["seeds"] = torch.randint(2**62, shape, device=call.feat.device)
    return {name: x.contiguous() for name, x in found.items() if x is not None}


class _Recurrence(torch.autograd.Function):
    """The autograd function of all steps."""

    @staticmethod
    def forward(
        ctx: Any, settings: Settings, layouts: Layouts, names: tuple[str, ...], *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.settings, ctx.layouts, ctx.names = settings, layouts, names
        with torch.cuda.device_of(tensors[0]):
            lease = _run_forward(ctx, tensors)
            whole, num_dst = lease.program.whole, layouts[0].num_dst
            steps = whole["halted"][:num_dst].long()
            # As float32, the errors are copied in the same launch.
            static = [whole[x][:num_dst] for x in ("out", "remainder")]
            static.append(whole["errors"].view(torch.float32))
            out, remainder, errors = copies = [torch.empty_like(x) for x in static]
            copy_by_dtype(copies, static)
            errors = errors.view(torch.int32)
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(*tensors, lease.ticket())
        ctx.mark_non_differentiable(steps, errors)
        ctx.set_materialize_grads(False)
        return out, remainder, steps, errors

    @staticmethod
    def backward(ctx: Any, to_out: Tensor, to_remainder: Tensor, *_: Any) -> tuple[Any, ...]:
        refuse_second_derivatives()
        *tensors, ticket = ctx.saved_tensors
        with torch.cuda.device_of(tensors[0]):
            # Hooks of autograd may have copied the ticket, and dropped it.
            lease = getattr(ticket.untyped_storage(), "lease", None) or _run_forward(ctx, tensors)
            targets = [lease.program.whole[x] for x in ("to_out", "to_remainder")]
            pairs = zip(targets, (to_out, to_remainder), strict=True)
            grads = [torch.zeros_like(x) if grad is None else grad for x, grad in pairs]
            copy_by_dtype([x[: len(y)] for x, y in zip(targets, grads, strict=True)], grads)
            lease.run_backward()
            found = lease.program.gradients(dict(zip(ctx.names, tensors, strict=True)))
        if not torch._C._autograd._get_current_graph_task_keep_graph():
            lease.give_back()
        return None, None, None, *(found.get(name) for name in ctx.names)


def _run_forward(ctx: Any, tensors: Sequence[Tensor]) -> Lease:
    """Run the forward pass of a program on the inputs of a call."""
    layouts, given = ctx.layouts, dict(zip(ctx.names, tensors, strict=True))
    inputs = {**given, "sizes": layouts[0].cached(node_counts)[0]}
    for prefix, layout in zip(("", "cross_"), layouts, strict=True):
        if layout is not None:
            inputs |= layout_inputs(layout, prefix, ctx.settings, given)
    lease = Lease(ctx.settings, inputs)
    lease.program.load(inputs)
    lease.run()
    return lease


def layout_inputs(
    layout: EdgeLayout, prefix: str, settings: Settings, inputs: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return the inputs of a program that describe the edges of an attention layer."""
    width = inputs[f"{prefix}output_weight"].shape[1] // settings.heads[bool(prefix)]
    drops = settings.dropout[PLACES.index(f"{prefix}attention")] > 0
    return tensors_of(edges_of(layout, width, by_edge=drops, both=settings.learns), prefix)


class DeviceWork(FlopCount):
    """The nodes and edges that the steps of a program computed, counted when they are asked for."""

    def __init__(self, layouts: Layouts, steps: Tensor, stores_all: bool) -> None:
        self.attended = []
        self._layouts, self._steps, self._stores_all = layouts, steps, stores_all

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
        if self._stores_all:
            return steps.max() * num_src
        return steps.clamp_max(steps.max() - 1).sum() + num_src
