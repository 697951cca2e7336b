"""Compare the adaptive recurrence with dense models in plain torch that have the same weights.

    python examples/benchmarks/model.py --shape 64x10-60 8x400 --topology complete causal
    python examples/benchmarks/model.py --small

Nodes halt by a fixed schedule: 100, 90, 70, 50, 30, 20, 10 and 5% of them are active in the eight
steps. The dense model pads sentences, computes every node in each step, and masks halted ones.
`--small` measures twenty calls of 5, 96 and 240 nodes with learned halting, of two steps each.
"""

from functools import partial
from itertools import product
from typing import Any

import common
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from graphut import nn as gnn
from graphut.topology import Complete, parse

ACTIVE = (1.0, 0.9, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05)  # share of the nodes in each step
SMALL = ((1, 5, 32, 4), (8, 12, 32, 4), (8, 30, 128, 8))  # sentences, tokens, features, heads


class Dense(nn.Module):
    """ACT (arXiv 1603.08983) in plain torch, on padded sentences, with the weights of `ours`."""

    def __init__(self, ours: gnn.AdaptiveRecurrence, length: int, halting: Any = None) -> None:
        super().__init__()
        self.step: Any = ours.step
        unit, like = ours.halting, self.step.attention.query.weight
        self.halting = halting or (lambda y, t: torch.sigmoid(unit.linear(y))[..., 0])
        number = torch.arange(1, max(length, ours.max_steps) + 1, device=like.device)
        signals = gnn.coordinate_signal(number, like.shape[1], like.dtype)
        self.positions, self.signals = signals[:length], signals[: ours.max_steps]

    def forward(self, x: Tensor, active: Tensor, mask: Any = None, *, stops: bool = False) -> Any:
        """Return outputs, `(batch, longest, d)`, and the mean cost; `active` is no padding."""
        out, count, (spent, cost) = torch.zeros_like(x), active.sum(), x.new_zeros(2, *x.shape[:2])
        for t, signal in enumerate(self.signals, 1):
            y = x + self.positions + signal
            p, new = self.halting(y, t), self._step(y, mask)
            halts = active if t == len(self.signals) else active & (spent + p >= 0.99)
            weight = torch.where(halts, 1 - spent, p) * active
            out = out + weight[..., None] * new
            spent, cost = spent + weight, cost + (weight + t) * halts
            x, active = torch.where(active[..., None], new, x), active & ~halts
            if stops and not active.any():  # all tokens have halted
                break
        return out, cost.sum() / count

    def _step(self, y: Tensor, mask: Tensor | None) -> Tensor:
        step, attention = self.step, self.step.attention
        by_head = (*y.shape[:2], -1, attention.num_heads, attention.head_feats)
        query = attention.query(y).view(by_head)[:, :, 0].transpose(1, 2)
        key, value = attention.key_value(y).view(by_head).permute(2, 0, 3, 1, 4)
        heads = scaled_dot_product_attention(query, key, value, attn_mask=mask)
        a = step.attention_norm(y + attention.output(heads.transpose(1, 2).flatten(2)))
        return step.transition_norm(a + step.transition.layers(a))


def make_recurrence(dim: int, heads: int, halting: Any, **options: Any) -> gnn.AdaptiveRecurrence:
    torch.manual_seed(0)
    # Smooth, because a ReLU near zero may differ between two correct models.
    transition = gnn.PositionwiseTransition(dim, 4 * dim, activation=nn.GELU())
    step = gnn.UniversalTransformerStep(gnn.MultiHeadAttention(dim, heads), transition)
    return gnn.AdaptiveRecurrence(step, halting, **options)


def compare(
    title: str, models: Any, weights: Any, repeats: int, count: int = 1, limit: float = 1e-5,
    before: Any = None,
) -> list[common.Row]:  # fmt: skip
    """Compare two models, which return outputs and a cost, and time `count` calls of each."""

    def run(name: str, *, train: bool) -> list[Tensor]:
        with torch.set_grad_enabled(train):
            for _ in range(count):
                out, cost = models[name]()  # of the recurrence: a `Ponder`
                loss = out.float().square().sum() + getattr(cost, "cost", cost)
                slopes = torch.autograd.grad(loss, weights) if train else ()
        return [loss, *slopes]

    rows, error = [], common.relative_error(*(run(name, train=True) for name in models), limit)
    for train in (False, True):
        runs = {name: partial(run, name, train=train) for name in models}
        mode = ", forward" + "+backward" * train + f", {count} calls" * (count > 1)
        rows += common.time_in_turns(title + mode, runs, repeats, before, error=error)
    return rows


def bench_model(dim: int, shape: str, spec: str, options: Any) -> list[common.Row]:
    lengths = common.draw_lengths(shape)
    layout, present = parse(spec).layout(lengths), common.present(lengths)
    order = torch.randperm(layout.num_src, generator=torch.Generator().manual_seed(0))
    last = torch.zeros(len(order), dtype=torch.int64)  # step of each node
    for share in ACTIVE:
        last[order[: len(order) if options.no_halting else round(share * len(order))]] += 1
    halting = gnn.ScheduledHalting(last, share=0.01)
    ours = make_recurrence(dim, options.heads, halting, max_steps=len(ACTIVE), halted="copied")
    padded, positions = common.pad(last, present), present.nonzero()[:, 1] + 1
    dense = Dense(ours, present.shape[1], lambda y, t: torch.where(padded <= t, 1.0, 0.01))
    mask = common.attention_mask(present, present, layout.in_edges()[:2])
    feat = torch.randn(len(order), dim)
    models = {"dense": partial(dense, common.pad(feat, present), present, mask)}
    models["adaptive"] = partial(ours, layout, feat, positions=positions)
    title = f"{spec}, {shape}, {dim} features, {'no halting' if options.no_halting else 'schedule'}"
    return compare(title, models, [*ours.step.parameters()], options.repeats)


def bench_small(batch: int, length: int, dim: int, heads: int, repeats: int) -> list[common.Row]:
    ours = make_recurrence(dim, heads, gnn.HaltingUnit(dim, gain=0.1, bias_init=0.6))
    layout, places = Complete().layout([length] * batch), torch.arange(1, length + 1).repeat(batch)
    x, present = torch.randn(batch, length, dim), torch.ones(batch, length, dtype=torch.bool)
    models = {"plain torch": partial(Dense(ours, length), x, present, stops=True)}
    models["adaptive"] = partial(ours, layout, x.flatten(0, 1), positions=places)
    title = f"complete, {batch}x{length}, {dim} features, two steps"
    return compare(title, models, [*ours.parameters()], repeats, count=20)


if __name__ == "__main__":
    lists = {"shape": ("64x10-60", "8x400"), "topology": ("complete",), "dim": (128,)}
    options = common.parse_options(__doc__, **lists, heads=8, no_halting=False, small=False)
    sizes = product(options.dim, options.shape, options.topology)
    groups = (bench_model(*each, options) for each in sizes)
    if options.small:
        groups = (bench_small(*each, options.repeats) for each in SMALL)
    common.report("model", groups, options.results)
