"""The end of a step of ACT on a GPU: two kernel launches forward, and one backward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from graphut.attention.second_derivatives import refuse_second_derivatives
from graphut.attention.triton.sizes import FUSED
from graphut.nn.attention import is_hooked, is_plain_linear
from graphut.nn.call_state import LoopOutput
from graphut.nn.finite_checks import check_probability_shape
from graphut.nn.gpu.act_kernels import act_backward, act_compact, act_decide
from graphut.nn.gpu.async_checks import AsyncFiniteChecks
from graphut.nn.gpu.frontier import DeviceFrontier, DeviceRows, existing
from graphut.nn.halting import HaltingUnit
from graphut.nn.rules.act import ACT

BLOCK_M = 32  # rows of a program

# Tensors saved for the backward pass, gradients that it receives (of the results, in order) and
# gradients that it returns (of the arguments), by their names in `act_backward`.
SAVED = ("seen", "unit", "probability", "nodes", "states", "share", "flags", "place")
GIVEN = (
    *("to_unit", "to_out", "to_remainder", "wrong", "next_nodes", "to_next_spent"),
    *("to_shown", "to_next_shown", "to_next_encodings", "count"),
)
RETURNED = (
    *("to_seen", "to_unit", "to_probability", "to_states", "to_encodings", "to_spent"),
    *("to_out", "to_remainder"),
)


class FusedRows(DeviceRows):
    """States of the active nodes, for `ACT` with `weighting="sum"` in Triton kernels.

    It does the work of `DeviceRows` and `RuleState`, which need about fifty launches in each step.
    """

    def __init__(
        self,
        feat: Tensor,
        encodings: Tensor | None,
        num_dst: int,
        checks: AsyncFiniteChecks,
        rule: ACT,
        halting: nn.Module,
        max_steps: int,
    ) -> None:
        super().__init__(feat, encodings, num_dst, checks)
        self._rule = rule
        self._halting = halting
        self._max_steps = max_steps
        self._active: Tensor | None = None
        wide = torch.promote_types(feat.dtype, torch.float32)
        self._spent, self._remainder = (feat.new_zeros(num_dst, dtype=wide) for _ in range(2))
        self._out = feat.new_zeros(num_dst, feat.shape[1])
        self._steps = self.nodes.new_zeros(num_dst)
        self._own_encodings = None if encodings is None else encodings[:num_dst].contiguous()
        self._unit = _parameters(halting, wide, num_dst)

    def active(self) -> Tensor:
        """Return states plus encodings of the active nodes, `(A, d)`."""
        return super().active() if self._active is None else self._active

    def end_step(self, before: Tensor, after: Tensor, step: int) -> None:
        """Let nodes halt after a step, update the outputs, and drop the rows of halted nodes."""
        is_last = step == self._max_steps
        bound = 0 if is_last else self._checks.next_bound()
        seen: Tensor | None = (before if self._rule.halt_from == "input" else after).contiguous()
        probability = None
        if self._unit is None:
            assert seen is not None
            probability = self._halting(seen, existing(self.nodes, self._missing), step)
            check_probability_shape(probability, len(seen))
            seen, probability = None, probability.to(self._spent.dtype).contiguous()
        self._unit, self._out, self._remainder, wrong, *moved = _EndStep.apply(  # type: ignore[no-untyped-call]
            seen,
            self._unit,
            probability,
            after.contiguous(),
            self._own_encodings,
            self._spent,
            self._out,
            self._remainder,
            self._steps,
            self.nodes,
            (self._missing, step, is_last, bound, self._rule),
        )
        self._checks.note(wrong, self.nodes)
        self.num_active, self.last_nodes = bound, self.nodes
        if bound:
            self.nodes, self._spent, shown, self._active, self._own_encodings, self.count = moved
            self._last = after if shown is None else shown
            self._checks.send(self.count)
            self.step += 1

    def result(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the output, number of steps, ACT remainder and ponder cost of each node."""
        cost = self._remainder
        if self._rule.cost == "steps+remainder":
            cost = cost + self._steps
        return self._out, self._steps, self._remainder, cost


class FusedFrontier(DeviceFrontier):
    """The set of active nodes, under ACT; Triton kernels compute the end of each step."""

    rows: FusedRows

    def end_step(self, before: Tensor, after: Tensor, t: int) -> None:
        """Let nodes halt after step `t` (input: `before`, output: `after`); update the outputs."""
        self.rows.end_step(before, after, t)

    def result(self) -> LoopOutput:
        """Return the output, number of steps, ACT remainder and ponder cost of each node."""
        return LoopOutput(*self.rows.result())


class _EndStep(torch.autograd.Function):
    """Autograd function for the end of a step of ACT; `act_kernels` explains its arguments."""

    @staticmethod
    def forward(
        ctx: Any,
        seen: Tensor | None,
        unit: Tensor | None,
        probability: Tensor | None,
        states: Tensor,
        encodings: Tensor | None,
        spent: Tensor,
        out: Tensor,
        remainder: Tensor,
        steps: Tensor,
        nodes: Tensor,
        others: tuple[int, int, bool, int, ACT],
    ) -> tuple[Tensor | None, ...]:
        missing, step, is_last, bound, rule = others
        sizes, blocks = _sizes(states)
        share, wrong = torch.empty_like(spent), nodes.new_empty(len(nodes), dtype=torch.int32)
        flags, going = torch.empty_like(wrong), wrong.new_empty(blocks)
        probability = torch.empty_like(spent) if probability is None else probability
        shared: dict[str, Any] = {"nodes": nodes, "states": states, "missing": missing, **sizes}
        shared |= {"spent": spent, "share": share, "flags": flags, "going": going}
        with torch.cuda.device_of(states):
            act_decide[(blocks,)](
                seen=seen,
                unit=unit,
                probability=probability,
                out=out,
                remainder=remainder,
                steps=steps,
                wrong=wrong,
                step=step,
                threshold=rule.threshold,
                is_last=is_last,
                forced=rule.forced_remainder,
                **shared,
            )
            place, *moved = _compact(encodings, bound, blocks, shared) if bound else [None] * 7
        # Their gradients and the unit's gradient pass from step to step or are summed in place.
        ctx.mark_dirty(out, remainder)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(seen, unit, probability, nodes, states, share, flags, place)
        ctx.sizes = missing, bound
        return unit, out, remainder, wrong, *moved

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        with torch.no_grad():
            found = _gradients(ctx, grads)
        inputs = [*ctx.saved_tensors, *grads]
        refused = refuse_second_derivatives("a step that ends by Triton kernels", found, inputs)
        return *refused, *[None] * 3


def _gradients(ctx: Any, grads: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Return the gradients of the arguments of `_EndStep` from `seen` to `remainder`."""
    saved = dict(zip(SAVED, ctx.saved_tensors, strict=True))
    given = {
        name: None if x is None else x.contiguous()
        for name, x in zip(GIVEN, grads, strict=True)
        if name.startswith("to_")
    }
    seen, unit, states, share = (saved[name] for name in ("seen", "unit", "states", "share"))
    (missing, bound), (sizes, blocks) = ctx.sizes, _sizes(states)
    if unit is not None and given["to_unit"] is None:
        given["to_unit"] = torch.zeros_like(unit)
    made = {
        "to_seen": None if seen is None else torch.empty_like(seen),
        "to_probability": torch.empty_like(share) if seen is None else None,
        "to_states": torch.empty_like(states),
        "to_encodings": torch.empty_like(states) if ctx.needs_input_grad[4] else None,
        "to_spent": torch.empty_like(share),
    }
    with torch.cuda.device_of(states):
        act_backward[(blocks,)](**saved, **given, **made, missing=missing, bound=bound, **sizes)
    found = made | given
    return [found[name] for name in RETURNED]


def _parameters(halting: nn.Module, dtype: torch.dtype, rows: int) -> Tensor | None:
    """Return weight and bias of a `HaltingUnit` for each block of rows, `(blocks, width + 1)`.

    Return None for other modules: the kernels support only a linear map and a sigmoid.
    """
    if type(halting) is not HaltingUnit or halting.norm is not None or is_hooked(halting):
        return None
    if not is_plain_linear(halting.linear):
        return None
    both = torch.cat([halting.linear.weight[0], halting.linear.bias]).to(dtype)
    return both.repeat(-(-rows // BLOCK_M), 1)


def _compact(
    encodings: Tensor | None, bound: int, blocks: int, shared: dict[str, Any]
) -> list[Tensor | None]:
    """Run `act_compact`; return its outputs: `place`, and the tensors of the next step."""
    nodes, spent, states = shared["nodes"], shared["spent"], shared["states"]
    next_shown = states.new_empty(bound, states.shape[1])
    shown = next_encodings = None
    if encodings is not None:
        shown, next_encodings = torch.empty_like(states), torch.empty_like(next_shown)
    place, count = nodes.new_empty(len(nodes), dtype=torch.int32), nodes.new_empty(())
    next_nodes, next_spent = nodes.new_empty(bound), spent.new_empty(bound)
    act_compact[(blocks,)](
        encodings=encodings,
        place=place,
        shown=shown,
        next_nodes=next_nodes,
        next_spent=next_spent,
        next_shown=next_shown,
        next_encodings=next_encodings,
        count=count,
        bound=bound,
        lanes=128,
        **shared,
    )
    return [place, next_nodes, next_spent, shown, next_shown, next_encodings, count]


def _sizes(states: Tensor) -> tuple[dict[str, int], int]:
    """Return a dictionary of arguments that kernels share, and the number of blocks of rows."""
    rows, width = states.shape
    block_w = max(16, min(64, 1 << (width - 1).bit_length()))
    sizes = {"rows": rows, "width": width, "block_m": BLOCK_M, "block_w": block_w}
    return sizes | FUSED, -(-rows // BLOCK_M)
