"""The adaptive recurrence by loops over nodes, by the numbered lines of its definition."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from graphut.attention import EdgeLayout
from graphut.nn import (
    AdaptiveRecurrence,
    LearnedSignal,
    MultiHeadAttention,
    SeparableConvTransition,
    SinusoidalSignal,
)
from tests.attention.naive import naive_attention
from tests.helpers import Pairs, pairs_of


def signal(coordinate: float, dim: int) -> Tensor:
    """Return the sinusoidal signal of a coordinate, `(dim,)`, one angle at a time."""
    angles = [coordinate / 10000 ** ((k - k % 2) / dim) for k in range(dim)]
    entries = [math.cos(a) if k % 2 else math.sin(a) for k, a in enumerate(angles)]
    return torch.tensor(entries, dtype=torch.float64)


def signal_of(which: Any, coordinate: float, dim: int) -> Tensor:
    """Return the position or step signal of a recurrence at a coordinate."""
    if which is None:
        return torch.zeros(dim).double()
    if isinstance(which, SinusoidalSignal):
        return signal(coordinate + which.count_from - 1, dim)
    if isinstance(which, LearnedSignal):
        return which.weight[int(coordinate) - which.first]
    return which(torch.tensor([coordinate]))[0]


def multi_head(
    layer: MultiHeadAttention, seen: list[Tensor], distances: list[float], row: Tensor
) -> Tensor:
    """Return multi-head attention from one row to its in-neighbours at some distances."""
    heads = (layer.num_heads, layer.head_feats)
    if not seen:
        return layer.output(row.new_zeros(heads).flatten())
    key, value = layer.key_value(torch.stack(seen)).chunk(2, dim=1)
    query = layer.query(row).view(1, *heads)
    pairs: Pairs = [(j, 0) for j in range(len(seen))]
    factor, bias = torch.ones(heads[0], 1).double(), None
    if layer.degree_scale is not None:
        factor = layer.degree_scale[:, None] * math.log(1 + len(seen))
    if layer.relative is not None:
        moved = query[0] + layer.relative.bias[1]
        signals = torch.stack([signal(distance, layer.in_feats[0]) for distance in distances])
        there = layer.relative.distance(signals).view(-1, *heads)
        bias = (factor * moved * there).sum(2) / math.sqrt(heads[1])
        query = query + layer.relative.bias[0]
    parts = query * factor, key.view(-1, *heads), value.view(-1, *heads)
    out, _ = naive_attention(pairs, *parts, bias=bias)
    return layer.output(out.flatten())


def naive_recurrence(
    layer: AdaptiveRecurrence,
    layout: EdgeLayout,
    feat: Tensor,
    *,
    positions: Tensor | None = None,
    cross: tuple[EdgeLayout, Tensor] | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return output, steps, remainder and cost, by ACT or without halting."""
    halted, cap, rule = layer.halted, layer.max_steps, layer.rule
    dim, nodes = feat.shape[1], range(feat.shape[0])
    sentence = torch.repeat_interleave(layout.dst_lengths).tolist()
    sees = [[j for j, dst in pairs_of(layout) if dst == i] for i in nodes]
    reads = None if cross is None else [[j for j, d in pairs_of(cross[0]) if d == i] for i in nodes]
    place = [
        signal_of(None if positions is None else layer.position_signal, number, dim)
        for number in (torch.zeros(len(feat)) if positions is None else positions).tolist()
    ]

    def coordinate(i: int, t: int) -> Tensor:
        given = place[i] + signal_of(layer.step_signal, t, dim)
        return given + feat[i] if layer.inject_input else given

    def sublayer(
        row: Tensor, norm: nn.LayerNorm, function: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Return the input of the function, and the row after the sublayer."""
        if step.norm == "pre":
            return norm(row), row + step.dropout(function(norm(row)))
        return row, norm(row + step.dropout(function(row)))

    def move(i: int, row: Tensor) -> Tensor:
        if not isinstance(step.transition, SeparableConvTransition):
            return step.transition.layers(row)
        total = torch.zeros(dim).double()
        for k, offset in enumerate(step.transition.offsets):
            j = i + offset
            if j in nodes and sentence[j] == sentence[i] and j in combined:
                total = total + step.transition.depthwise[k] * combined[j]
        return step.transition.layers(total)

    def shows(j: int, t: int) -> Tensor:
        if j in runs:
            return y[j]
        return {
            "copied": lambda: x[j] + coordinate(j, t),
            "frozen": lambda: x[j] + coordinate(j, steps[j] + 1),
            "stale": lambda: y[j],
        }[halted]()

    x = [feat[i] for i in nodes]
    out = [torch.zeros(dim).double() for _ in nodes]
    spent, rest = ([torch.zeros(()).double() for _ in nodes] for _ in range(2))
    steps = [0 for _ in nodes]
    y: dict[int, Tensor] = {}
    combined: dict[int, Tensor] = {}
    frontier = list(nodes)
    for t in range(1, cap + 1):
        step = layer.step[t - 1] if isinstance(layer.step, nn.ModuleList) else layer.step
        runs = list(nodes) if halted == "running" else frontier
        y |= {i: x[i] + coordinate(i, t) for i in runs}  # 1
        rows = {}
        for i in runs:
            z = [shows(j, t) for j in sees[i]]
            if step.norm == "pre":
                z = [step.attention_norm(row) for row in z]
            distances = [
                0.0 if positions is None else float(positions[i] - positions[j]) for j in sees[i]
            ]
            attend = partial(multi_head, step.attention, z, distances)
            _, rows[i] = sublayer(y[i], step.attention_norm, attend)  # 2
            if cross is not None:
                m = [cross[1][j] for j in reads[i]]
                attend = partial(multi_head, step.cross_attention, m, [])
                _, rows[i] = sublayer(rows[i], step.cross_norm, attend)  # 3
        for i in runs:
            combined[i], _ = sublayer(rows[i], step.transition_norm, lambda row: row)
        for i in runs:
            _, x[i] = sublayer(rows[i], step.transition_norm, partial(move, i))  # 4
        stay = []
        for i in frontier:
            steps[i] = t
            if layer.halting is None:
                out[i] = x[i]
                stay.append(i)
                continue
            u = y[i] if rule.halt_from == "input" else x[i]
            p = layer.halting(u[None], torch.tensor([i]), t)[0]  # 5
            reached = bool(spent[i] + p >= rule.threshold)
            w = p
            if reached or (t == cap and rule.forced_remainder):
                w = rest[i] = 1 - spent[i]  # 6
            out[i] = {
                "sum": out[i] + w * x[i],  # 7
                "ema": w * x[i] + (1 - w) * out[i],
                "last": x[i],
            }[rule.weighting]
            spent[i] = spent[i] + w
            if not reached:
                stay.append(i)
        frontier = stay
        if not frontier:
            break
    n, r = torch.tensor(steps), torch.stack(rest)
    cost = (r if rule.cost == "remainder" else n + r).mean() if layer.halting else 0 * r.sum()
    return step.readout(torch.stack(out)), n, r, cost
