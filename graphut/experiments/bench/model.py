"""The benchmarks of halting: the adaptive recurrence against dense models with masks."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from graphut.experiments.bench.attention_workload import gradient_run
from graphut.experiments.bench.driver import (
    CPU,
    TOLERANCE,
    Contender,
    Row,
    largest_error,
    measure_equal,
    say,
    sentence_lengths,
)
from graphut.experiments.bench.padding import PaddedModel, pad, padded_mask, present_positions
from graphut.nn import (
    AdaptiveRecurrence,
    HaltingUnit,
    MultiHeadAttention,
    PositionwiseTransition,
    ScheduledHalting,
    UniversalTransformerStep,
    coordinate_signal,
)
from graphut.topology import Complete, parse

ACTIVE_FRACTIONS = (1.0, 0.9, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05)  # of the nodes, at each step
COMPILED = "compiled dense"
_NARROW = ", bfloat16"  # ends the names of contenders under autocast
SMALL_SHAPES = (
    (1, 5, 32, 4),
    (8, 12, 32, 4),
    (8, 30, 128, 8),
)  # sentences, tokens, features, heads
_CALLS = 20  # of which the total time is measured
Call = Callable[[], list[Tensor]]
_SHARE = 0.01  # halting probability of a node before its last step


def scheduled_depths(nodes: int) -> Tensor:
    """Draw the last step of each node, `(nodes,)`; `ACTIVE_FRACTIONS` are active at each step.

    Examples
    --------
    >>> [int((scheduled_depths(100) >= step).sum()) for step in range(1, 9)]
    [100, 90, 70, 50, 30, 20, 10, 5]
    """
    order = torch.randperm(nodes, generator=torch.Generator().manual_seed(0))
    depth = torch.zeros(nodes, dtype=torch.int64)
    for fraction in ACTIVE_FRACTIONS:
        depth[order[: round(fraction * nodes)]] += 1
    return depth


def bench_model(
    spec: str,
    shape: str,
    *,
    dim: int = 128,
    heads: int = 8,
    device: torch.device = CPU,
    repeats: int = 9,
    halting: bool = True,
    bfloat16: bool = False,
    compiler: str | None = None,
) -> list[Row]:
    """Compare results, time and memory of an adaptive and of a dense, padded model.

    The models have the same weights; their nodes halt at the steps of `scheduled_depths`, or take
    all steps if not `halting`. With `compiler`, a backend of `torch.compile`, the dense model is
    also compiled; on a GPU, its kernels are launched as CUDA graphs. With `bfloat16`, the adaptive
    and the compiled model also run under autocast. `relative_flops` is relative to the dense model.
    """
    lengths = sentence_lengths(shape)
    text = f"{spec}, {shape}, {dim} features, {'schedule' if halting else 'no halting'}"
    layout = parse(spec).layout(lengths).to(device)
    nodes = layout.num_src
    depth = scheduled_depths(nodes) if halting else torch.full((nodes,), len(ACTIVE_FRACTIONS))
    torch.manual_seed(0)
    step = UniversalTransformerStep(
        MultiHeadAttention(dim, heads),
        # Smooth, because a ReLU near zero may differ between two correct models.
        PositionwiseTransition(dim, 4 * dim, activation=nn.GELU()),
    ).to(device)
    say(text)
    feat, upstream = torch.randn(2, nodes, dim).to(device)
    adaptive = AdaptiveRecurrence(
        step,
        ScheduledHalting(depth.to(device), share=_SHARE),
        max_steps=len(ACTIVE_FRACTIONS),
        halted="copied",
    )
    present = present_positions(lengths.to(device))
    # A padded model cannot know that all lengths are equal: it always has a mask.
    mask = padded_mask(present, present, layout.in_edges()[:2])
    dense = PaddedModel(step, mask, max_steps=len(ACTIVE_FRACTIONS), share=_SHARE)
    padded_depth, positions = pad(depth.to(device), present), present.nonzero()[:, 1] + 1
    runs: dict[str, Callable[[Tensor], Tensor]] = {"dense": lambda x: dense(x, padded_depth)}
    if compiler is not None:
        runs[COMPILED] = _compiled(dense, padded_depth, compiler)
    runs["adaptive"] = lambda x: adaptive(layout, x, positions=positions)[0]
    if bfloat16:
        autocast = torch.autocast(device.type, torch.bfloat16)
        runs |= {f"{name}{_NARROW}": autocast(run) for name, run in runs.items() if name != "dense"}
    packed, padded = (feat, upstream), (pad(feat, present), pad(upstream, present))
    weights = [*step.parameters()]
    forward, backward, results = {}, {}, {}
    for name, call in runs.items():
        is_packed = name.startswith("adaptive")
        x, gradient = packed if is_packed else padded
        backward[name] = gradient_run(call, [x], gradient, weights)
        forward[name] = torch.no_grad()(partial(call, x))
        out, to_feat, *others = backward[name]()
        results[name] = [out, to_feat] if is_packed else [out[present], to_feat[present]]
        results[name] += others
        if name.startswith(COMPILED) or device.type == "cuda":
            for run in (forward[name], backward[name]) * 3:  # compile, and record the CUDA graphs
                run()
    expected = results.pop("dense")
    errors = {name: largest_error(result, expected) for name, result in results.items()}
    ponder = adaptive(layout, feat, positions=positions)[1]
    # The padded model computes all rows, and scores all pairs of a padded sentence.
    by_node = ponder.node_flops + ponder.key_value_flops + present.shape[1] * ponder.edge_flops
    share = int(ponder.flops) / (len(ACTIVE_FRACTIONS) * present.numel() * by_node)
    flops = {name: share if name.startswith("adaptive") else 1.0 for name in runs}
    rows: list[Row] = []
    narrow = TOLERANCE[torch.bfloat16]
    limits = {name: narrow for name in runs if name.endswith(_NARROW)}
    modes: dict[str, Mapping[str, Contender]] = {"forward": forward, "forward+backward": backward}
    for mode, timed in modes.items():
        title = f"{text}, {mode}"
        rows += measure_equal(title, timed, errors, repeats=repeats, device=device, limits=limits)
    return [{**row, "relative_flops": flops[row["contender"]]} for row in rows]


def _compiled(model: PaddedModel, depth: Tensor, compiler: str) -> Callable[[Tensor], Tensor]:
    """Compile a model; on a GPU with "inductor", so that a call replays CUDA graphs."""
    replays = depth.is_cuda and compiler == "inductor"
    run = torch.compile(model, backend=compiler, mode="reduce-overhead" if replays else None)

    def call(x: Tensor) -> Tensor:
        if replays:  # results of earlier calls may be overwritten
            torch.compiler.cudagraph_mark_step_begin()
        out: Tensor = run(x, depth)
        return out

    return call


class PlainModel(nn.Module):
    """A model in eager torch with the weights of `ours`, for sentences of one length."""

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
    """Compare small calls of the recurrence, of two steps each, with `PlainModel`, on the CPU."""
    return [row for shape in SMALL_SHAPES for row in _bench_shape(*shape, repeats=repeats)]


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
        rows += measure_equal(workload, timed, {"adaptive": error}, repeats=repeats)
    return rows


def _repeated(run: Call, *, gradients: bool) -> Call:
    def call() -> list[Tensor]:
        with torch.set_grad_enabled(gradients):
            for _ in range(_CALLS):
                result = run()
        return result

    return call
