"""The dense oracle of the adaptive recurrence: every node, every step, masks, no frontier.

It shares the parameters of an `AdaptiveRecurrence` and none of its machinery. The tests compare
the adaptive loop with it.
"""

from __future__ import annotations

from typing import TypeAlias

import torch
from torch import Tensor

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout, as_layout
from graphut.nn.attention import MultiHeadAttention
from graphut.nn.noise import with_noise
from graphut.nn.recurrence import AdaptiveRecurrence, adaptive_loop
from graphut.nn.step import UniversalTransformerStep
from graphut.nn.transition import SeparableConvTransition

Graph: TypeAlias = DGLGraph | EdgeLayout


def dense_recurrence(
    layer: AdaptiveRecurrence,
    graph: Graph,
    feat: Tensor,
    *,
    positions: Tensor | None = None,
    cross: tuple[Graph, Tensor] | None = None,
    edge_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute what `layer(graph, feat, ...)` must give, the plain way; without dropout.

    Returns
    -------
    tuple of Tensor
        `(N, d)` output, `(N,)` steps and `(N,)` remainder.

    Examples
    --------
    >>> import torch
    >>> from graphut.nn import HaltingUnit, MultiHeadAttention, PositionwiseTransition
    >>> from graphut.nn import UniversalTransformerStep
    >>> from graphut.topology import Complete
    >>> step = UniversalTransformerStep(MultiHeadAttention(8, 2), PositionwiseTransition(8, 32))
    >>> layer, x = AdaptiveRecurrence(step, HaltingUnit(8)), torch.randn(5, 8)
    >>> graph = Complete().graph([3, 2])
    >>> out, steps, remainder = dense_recurrence(layer, graph, x)
    >>> torch.allclose(out, layer(graph, x)[0], atol=1e-5)
    True
    """
    drawn = layer.noise.draw() if layer.noise is not None and layer.training else None
    state = with_noise(drawn, "first", feat)
    place, noise = torch.zeros_like(feat), torch.zeros_like(feat)
    if positions is not None and layer.position_signal is not None:
        place = layer.position_signal(positions).to(feat.dtype)
    if layer.inject_input:
        place = place + with_noise(drawn, "injected", feat)
    loop, copies = adaptive_loop(layer), _copies(graph, edge_bias)
    active = torch.ones(feat.shape[0], dtype=torch.bool)
    spent = feat.new_zeros(feat.shape[0], dtype=torch.promote_types(feat.dtype, torch.float32))
    remainder, steps = spent, torch.zeros(feat.shape[0], dtype=torch.int64)
    out, shown, combined = torch.zeros_like(feat), feat, torch.zeros_like(feat)

    for t in range(1, layer.max_steps + 1):
        anew = (steps >= t - 1) | (layer.halted == "running")
        redrawn = with_noise(drawn, "every_step", torch.zeros_like(feat), step=t)
        noise = torch.where(anew[:, None], redrawn, noise)
        now = state + place + noise
        if layer.step_signal is not None:
            now = now + layer.step_signal(torch.tensor([t])).to(feat.dtype)
        moves = active if layer.halted in ("frozen", "stale") else torch.ones_like(active)
        if layer.halted == "frozen" and t > 1:
            moves = steps >= t - 1  # the step after its last is the last to be shown
        shown = torch.where(moves[:, None], now, shown)
        step = loop.step(t)
        new, offered = _step(step, graph, copies, now, shown, combined, active, cross, layer)
        combined = offered
        if layer.halting is None:
            state, steps = new, steps + 1
            out = state
            continue
        source = now if layer.halt_from == "input" else new
        p = layer.halting(source, None, t)
        last = t == layer.max_steps
        reached = spent + p >= layer.threshold
        closes = reached | (last and layer.forced_remainder)
        weight = torch.where(closes, 1 - spent, p)
        remainder = torch.where(active & closes, 1 - spent, remainder)
        share = weight.to(feat.dtype)[:, None]
        by_name = {"sum": out + share * new, "ema": share * new + (1 - share) * out, "last": new}
        candidate = by_name[layer.weighting]
        out = torch.where(active[:, None], candidate, out)
        steps = steps + active
        goes_on = active | (layer.halted == "running")
        state = torch.where(goes_on[:, None], new, state)
        spent = torch.where(active & ~closes, spent + p, spent)
        active = active & ~(reached | last)
    return loop.step(layer.max_steps).readout(out), steps, remainder


def _step(
    step: UniversalTransformerStep,
    graph: Graph,
    copies: Tensor,
    now: Tensor,
    shown: Tensor,
    combined: Tensor,
    active: Tensor,
    cross: tuple[Graph, Tensor] | None,
    layer: AdaptiveRecurrence,
) -> tuple[Tensor, Tensor]:
    pre = step.norm == "pre"

    def add(rows: Tensor, change: Tensor, norm: torch.nn.LayerNorm) -> Tensor:
        return rows + change if pre else norm(rows + change)

    def ready(rows: Tensor, norm: torch.nn.LayerNorm) -> Tensor:
        return norm(rows) if pre else rows

    norm = step.attention_norm
    attended = _attend(step.attention, graph, copies, ready(now, norm), ready(shown, norm))
    rows = add(now, attended, norm)
    if step.cross_attention is not None and step.cross_norm is not None and cross is not None:
        norm, between = step.cross_norm, cross[0]
        query = ready(rows, norm)
        read = _attend(step.cross_attention, between, _copies(between), query, cross[1])
        rows = add(rows, read, norm)
    norm = step.transition_norm
    offer = ready(rows, norm)
    runs = active | (layer.halted == "running") | (layer.halting is None)
    combined = torch.where(runs[:, None], offer, combined)
    if isinstance(step.transition, SeparableConvTransition):
        change = step.transition.convolve(_windows(step.transition, graph, combined))
    else:
        change = step.transition.layers(offer)
    return add(rows, change, norm), combined


def _copies(graph: Graph, edge_bias: Tensor | None = None) -> Tensor:
    """Return `(H or 1, N_dst, N_src)`: the edges between each pair, weighted by `exp(bias)`."""
    layout = as_layout(graph)
    row, source, edge = layout.in_edges()
    weight = torch.ones(row.numel(), 1)
    if edge_bias is not None:
        weight = edge_bias.view(row.numel(), -1)[edge].exp()
    table = weight.new_zeros(layout.num_dst, layout.num_src, weight.shape[1])
    return table.index_put((row, source), weight, accumulate=True).movedim(-1, 0)


def _attend(
    layer: MultiHeadAttention, graph: Graph, copies: Tensor, rows: Tensor, source: Tensor
) -> Tensor:
    def heads(x: Tensor) -> Tensor:
        return x.view(-1, layer.num_heads, layer.head_feats).transpose(0, 1)

    wide = torch.promote_types(rows.dtype, torch.float32)
    key, value = map(heads, layer.key_value(source).chunk(2, dim=1))
    scores = (heads(layer.query(rows)) @ key.transpose(1, 2)).to(wide) * layer.head_feats**-0.5
    if layer.degree_scale is not None:
        growth = as_layout(graph).in_degrees.to(wide).log1p()
        scores = scores * torch.outer(layer.degree_scale, growth)[:, :, None]
    scores = (scores + copies.to(wide).log()).clamp_min(torch.finfo(wide).min)
    weights = scores.softmax(-1) * (copies > 0)
    out: Tensor = layer.output((weights.to(value.dtype) @ value).transpose(0, 1).flatten(1))
    return out


def _windows(transition: SeparableConvTransition, graph: Graph, feat: Tensor) -> Tensor:
    """Return `(N, kernel_size, d)` by a loop over sentences, each padded with zeros."""
    left, right = -transition.offsets[0], transition.offsets[-1]
    windows = []
    for sentence in feat.split(as_layout(graph).dst_lengths.tolist()):
        padded = torch.nn.functional.pad(sentence, (0, 0, left, right))
        windows.append(padded.unfold(0, transition.kernel_size, 1).transpose(1, 2))
    return torch.cat(windows)
