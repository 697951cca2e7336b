"""The benchmark of small calls: the adaptive recurrence against a few lines of plain torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from graphut.experiments.bench.driver import CPU, TOLERANCE, Row, largest_error, measure, say
from graphut.nn import (
    AdaptiveRecurrence,
    HaltingUnit,
    MultiHeadAttention,
    PositionwiseTransition,
    UniversalTransformerStep,
    coordinate_signal,
)
from graphut.topology import Complete

SHAPES = ((1, 5, 32, 4), (8, 12, 32, 4), (8, 30, 128, 8))
"""Sentences, tokens of each, features and heads."""
_CALLS = 20  # of which the total time is measured
Call: TypeAlias = Callable[[], list[Tensor]]


class PlainModel(nn.Module):
    """A model with the weights of `ours`, in eager torch with masks, for sentences of one length.

    Every token computes in each step; the loop ends when all tokens have halted.
    """

    def __init__(self, ours: AdaptiveRecurrence, length: int) -> None:
        super().__init__()
        step: Any = ours.step
        self.step, self.unit, self.max_steps = step, ours.halting, ours.max_steps
        width = step.attention.in_feats[1]
        self.position = coordinate_signal(torch.arange(1, length + 1), width)
        self.signal = coordinate_signal(torch.arange(1, ours.max_steps + 1), width)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return outputs, `(batch, length, d)`, and ponder costs, `(batch, length)`."""
        step: Any = self.step
        unit: Any = self.unit
        attention = step.attention
        first, activation, _, last = step.transition.layers
        by_head = (*x.shape[:2], -1, attention.num_heads, attention.head_feats)
        out, active = torch.zeros_like(x), torch.ones(x.shape[:2], dtype=torch.bool)
        spent, cost = x.new_zeros(2, *x.shape[:2])
        for t in range(1, self.max_steps + 1):
            y = x + self.position + self.signal[t - 1]
            p = torch.sigmoid(unit.linear(y))[..., 0]
            query = attention.query(y).view(by_head)[:, :, 0].transpose(1, 2)
            key, value = attention.key_value(y).view(by_head).permute(2, 0, 3, 1, 4)
            heads = scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
            c = step.attention_norm(y + attention.output(heads))
            new = step.transition_norm(c + last(activation(first(c))))
            halts = active if t == self.max_steps else active & (spent + p >= 0.99)
            weight = torch.where(halts, 1 - spent, p) * active
            out = out + weight[..., None] * new
            cost, spent = cost + (weight + t) * halts, spent + weight
            x, active = torch.where(active[..., None], new, x), active & ~halts
            if not active.any():
                break
        return out, cost


def bench_small_calls(*, repeats: int = 9) -> list[Row]:
    """Compare small calls of the recurrence, of two steps each, with `PlainModel`, on the CPU.

    If outputs or gradients differ, the rows have a note instead of times.
    """
    return [row for shape in SHAPES for row in _bench_shape(*shape, repeats=repeats)]


def _bench_shape(batch: int, length: int, dim: int, heads: int, *, repeats: int) -> list[Row]:
    torch.manual_seed(0)
    step = UniversalTransformerStep(
        MultiHeadAttention(dim, heads), PositionwiseTransition(dim, 4 * dim, activation=nn.GELU())
    )
    ours = AdaptiveRecurrence(step, HaltingUnit(dim, gain=0.1, bias_init=0.6))
    plain, layout = PlainModel(ours, length), Complete().layout([length] * batch)
    weights = [*ours.parameters()]
    x, positions = torch.randn(batch * length, dim), torch.arange(1, length + 1).repeat(batch)
    padded = x.view(batch, length, dim)

    def adaptive() -> list[Tensor]:
        out, ponder = ours(layout, x, positions=positions)
        return [out, ponder.cost]

    def dense() -> list[Tensor]:
        out, cost = plain(padded)
        return [out.flatten(0, 1), cost.mean()]

    def trained(run: Call) -> list[Tensor]:
        out, cost = run()
        return [out, cost, *torch.autograd.grad(out.square().sum() + cost, weights)]

    text = f"complete, {batch}x{length}, {dim} features, two steps"
    say(text)
    runs: dict[str, Call] = {"plain torch": dense, "adaptive": adaptive}
    error = largest_error(trained(adaptive), trained(dense))
    rows: list[Row] = []
    for mode, gradients in (("forward", False), ("forward+backward", True)):
        workload = f"{text}, {mode}, {_CALLS} calls"
        timed = {
            name: _repeated(partial(trained, run) if gradients else run, gradients=gradients)
            for name, run in runs.items()
        }
        if error > TOLERANCE[torch.float32]:
            note = f"adaptive is wrong by {error:.0e}"
            rows += [{"workload": workload, "contender": name, "note": note} for name in runs]
        else:
            rows += measure(workload, timed, repeats=repeats, device=CPU)
    return rows


def _repeated(run: Call, *, gradients: bool) -> Call:
    def call() -> list[Tensor]:
        with torch.set_grad_enabled(gradients):
            for _ in range(_CALLS):
                result = run()
        return result

    return call
