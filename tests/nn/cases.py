"""Small adaptive recurrences in every mode, with graphs and features."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from inspect import signature
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from graphut.attention import EdgeLayout, as_layout
from graphut.nn import (
    ACT,
    AdaptiveRecurrence,
    Convergence,
    FixedDepth,
    Global,
    HaltingRule,
    HaltingUnit,
    InputNoise,
    LearnedSignal,
    MessageAggregation,
    MultiHeadAttention,
    PonderNet,
    PositionwiseTransition,
    ScheduledHalting,
    SeparableConvTransition,
    Threshold,
    UniversalTransformerStep,
)
from graphut.nn.noise import PLACES
from graphut.nn.step import Store, read_cross
from graphut.topology import Causal, Complete, Topology, Window
from tests.helpers import (
    assert_same,
    covering,
    cross_edges,
    gradients,
    layout_of,
    multigraphs,
    normal,
)
from tests.nn.reference import dense_recurrence

FEATS, HEADS = 8, 2
LENGTHS = [4, 1, 5]
MODES: dict[str, Sequence[Any]] = {
    "halted": ("copied", "frozen", "stale", "running"),
    "weighting": ("sum", "ema", "last"),
    "halt_from": ("input", "output"),
    "norm": ("post", "pre"),
    "forced_remainder": (True, False),
    "transition": ("positionwise", "sepconv"),
    "form": ("encoder", "decoder"),
    "topology": ("complete", "causal", "window", "rows"),
    "positions": (True, False),
    "scale_by_degree": (False, True),
}
HALTED = MODES["halted"]
SCHEDULES = {
    "all-at-once": [1] * 10,
    "all-at-once-later": [3] * 10,
    "none-before-the-cap": [9] * 10,
    "one-outlives-all": [1, 1, 1, 5, 1, 1, 1, 1, 1, 1],
    "one-outlives-many": [2, 1, 2, 1, 3, 1, 5, 2, 3, 1],
}
SIGNALS: dict[str, Sequence[Any]] = {
    "position_signal": ("sinusoidal", "sinusoidal0", "learned", "own", None),
    "step_signal": ("learned", None, "own", "sinusoidal0", "sinusoidal"),
    "inject_input": (True, False),
}
RULES: dict[str, HaltingRule] = {
    "fixed": FixedDepth(),
    "ponder_net": PonderNet(threshold=0.8, beta=1.0),
    "ponder_net-output": PonderNet(threshold=0.9, prior=0.4, halt_from="output"),
    "ponder_net-last": PonderNet(threshold=0.8, weighting="last"),
    "threshold": Threshold(0.45, halt_from="output"),
    "convergence": Convergence(0.7),
    "convergence-patience": Convergence(0.8, patience=2),
    "global": Global(),
    "global-ponder_net": Global(PonderNet(threshold=0.8, beta=1.0)),
    "global-convergence": Global(Convergence(0.7)),
}
TOPOLOGIES: dict[str, Topology] = {"complete": Complete(), "causal": Causal(), "window": Window(1)}
# Three of five sources are no destinations.
BLOCK = layout_of([(0, 0), (1, 0), (2, 0), (3, 1), (4, 1), (1, 1)], 5, 2)
EDGES = (("bias", 1), ("bias", HEADS), ("weight", 1), ("weight", HEADS), ("feat", 3))


def modes_of(*names: str) -> dict[str, Sequence[Any]]:
    return {name: MODES[name] for name in names}


# Designs in which any two modes meet.
PAIRS = covering(**MODES, lengths=([63, 1], LENGTHS))
SIGNALLED = covering(**SIGNALS, **modes_of("halted", "norm", "form", "topology", "transition"))
ROWS: list[dict[str, Any]] = [
    *PAIRS,
    *SIGNALLED,
    *covering(**MODES, edges=EDGES),
    *covering(
        noise=PLACES,
        inject_input=(True,),
        **modes_of("halted", "norm", "form", "transition", "topology", "positions"),
    ),
    *covering(rule=list(RULES), **modes_of("halted", "norm", "form")),
    *covering(messages=("alone", "beside"), **modes_of("halted", "norm", "form", "topology")),
    *covering(
        share_weights=(False,),
        max_steps=(3,),
        rule=(None, "fixed"),
        **modes_of("halted", "norm", "form", "transition", "topology", "scale_by_degree"),
    ),
]


def signal(coordinate: float, dim: int) -> Tensor:
    """Return the sinusoidal signal of a coordinate, `(dim,)`, one angle at a time."""
    angles = [coordinate / 10000 ** ((k - k % 2) / dim) for k in range(dim)]
    entries = [math.cos(a) if k % 2 else math.sin(a) for k, a in enumerate(angles)]
    return torch.tensor(entries, dtype=torch.float64)


class OwnSignal(nn.Module):
    """A custom signal: sines with learned frequencies."""

    def __init__(self) -> None:
        super().__init__()
        self.rates = nn.Parameter(torch.rand(FEATS))

    def forward(self, coordinates: Tensor) -> Tensor:
        return torch.sin(coordinates[:, None] * self.rates)


def halve(module: nn.Module, args: Any, out: Any) -> Any:
    """Halve the output of a layer, but not its attention weights; a forward hook."""
    return (out[0] / 2, *out[1:]) if isinstance(out, tuple) else out / 2


def signal_from(name: str | None, size: int, seed: int) -> Any:
    """Return the argument for a signal; "learned" and "own" get random parameters."""
    if name not in ("learned", "own"):
        return name
    return randomised(OwnSignal() if name == "own" else LearnedSignal(size, FEATS), seed)


def rows_graph(lengths: Sequence[int]) -> EdgeLayout:
    """Return a layout with self-loops, hubs, and parallel edges, in random order."""
    pairs, first = [], 0
    for length in lengths:
        nodes = range(first, first + length)
        pairs += [(i, i) for i in nodes] + [(first, i) for i in nodes[1:]]
        pairs += [(i, first) for i in nodes[::2]] + [(i + 2, i) for i in nodes[:-2]] * 2
        first += length
    order = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(0)).tolist()
    sizes = torch.tensor(list(lengths))
    shuffled = [pairs[e] for e in order]
    return layout_of(shuffled, first, first, src_lengths=sizes, dst_lengths=sizes)


def build_step(
    *,
    norm: str | None = "post",
    transition: str = "positionwise",
    form: str = "encoder",
    scale_by_degree: bool = False,
    edge_dim: int | None = None,
    messages: str | None = None,
    residual: bool = True,
    seed: int = 0,
    **options: Any,
) -> UniversalTransformerStep:
    """Return a step with a smooth activation and random parameters.

    It attends, aggregates `messages` "alone", or does both, with messages "beside" attention.
    """
    decoder = form == "decoder"
    maps, by_degree = (FEATS, 12), {"scale_by_degree": scale_by_degree}
    attention: Any = MultiHeadAttention(FEATS, HEADS, edge_dim=edge_dim, **by_degree)
    if messages is not None:
        beside = attention if messages == "beside" else None
        attention = MessageAggregation(FEATS, attention=beside)
    step = UniversalTransformerStep(
        attention,
        PositionwiseTransition(*maps, activation=nn.GELU())
        if transition == "positionwise"
        else SeparableConvTransition(*maps, kernel_size=3, causal=decoder, activation=nn.GELU()),
        cross_attention=MultiHeadAttention((6, FEATS), HEADS, **by_degree) if decoder else None,
        norm=norm,
        residual=residual,
        **options,
    )
    return randomised(step, seed)


def randomised(module: Any, seed: int = 0) -> Any:
    """Convert a module to float64 and draw all its parameters by a seed."""
    module.double()
    # The other parameters do not depend on `scale_by_degree`.
    named = sorted(module.named_parameters(), key=lambda item: "degree_scale" in item[0])
    for index, (name, parameter) in enumerate(named):
        noise = normal(*parameter.shape, seed=seed + index).detach()
        if name.endswith("degree_scale"):
            noise = noise + 2.0  # at 0 all rows would see the same
        if parameter.dim() == 2:
            parameter.data = noise * parameter.shape[1] ** -0.5
        else:
            parameter.data = parameter.data.round() + 0.2 * noise
    return module


@dataclass
class Case:
    """A recurrence, and the arguments of a call."""

    layer: AdaptiveRecurrence
    graph: EdgeLayout
    feat: Tensor
    positions: Tensor | None = None
    cross: tuple[EdgeLayout, Tensor] | None = None
    arguments: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.arguments = {"positions": self.positions, "cross": self.cross}

    @property
    def inputs(self) -> list[Tensor]:
        """All tensors that have a gradient: features, encoder output, edge data, parameters."""
        of_edges = (self.arguments.get(name) for name in ("edge_bias", "edge_feat", "edge_weight"))
        given = [self.feat, self.cross and self.cross[1], *of_edges]
        return [*(x for x in given if x is not None), *self.layer.parameters()]

    def run(self, recurrence: Callable[..., Any]) -> list[Tensor]:
        """Return output, steps, remainder, cost and gradients of `recurrence(layer, ...)`."""
        torch.manual_seed(4)  # of noise
        found = recurrence(self.layer, self.graph, self.feat, **self.arguments)
        out, _, rest, cost = found
        return [*found, *gradients([out, rest, cost], self.inputs)]

    def to(self, there: torch.dtype | str) -> Case:
        """Return the case in another dtype or on a device; the layer is changed in place."""

        def moved(rows: Tensor) -> Tensor:
            return rows.detach().to(there).requires_grad_()

        cross = None if self.cross is None else (self.cross[0], moved(self.cross[1]))
        positions = self.positions
        if positions is not None and isinstance(there, str):
            positions = positions.to(there)
        return Case(self.layer.to(there), self.graph, moved(self.feat), positions, cross)


def same_as_dense(case: Case, tolerance: float = 1e-10) -> Tensor:
    """Compare a recurrence with the dense reference; return the steps of each node."""
    found = case.run(engine)
    assert_same(found, case.run(dense_recurrence), tolerance)
    return found[1]


def run_step(step: Any, graph: Any, feat: Tensor, cross: Any = None) -> Tensor:
    """Return the states of all destinations after a step, whose input is `feat`."""
    between, encoded = read_cross(step.cross_attention, cross)
    store = Store(as_layout(graph), cross_layout=between, encoded=encoded)
    store.write(None, step.project(feat, store.layout))
    return step(store, feat[: store.layout.num_dst])


def engine(layer: AdaptiveRecurrence, *arguments: Any, **options: Any) -> tuple[Tensor, ...]:
    """Call the recurrence, with the results of `dense_recurrence`."""
    out, ponder = layer(*arguments, **options)
    return out, ponder.steps, ponder.remainder, ponder.cost


def build_case(
    *,
    topology: str = "complete",
    positions: bool = True,
    lengths: Sequence[int] = LENGTHS,
    halting: nn.Module | None = None,
    graph: EdgeLayout | None = None,
    norm: str | None = "post",
    form: str = "encoder",
    max_steps: int = 5,
    share_weights: bool = True,
    rule: HaltingRule | str | None = None,
    noise: Any = None,
    edges: tuple[str, int] | None = None,
    position_signal: str | None = "sinusoidal",
    step_signal: str | None = "sinusoidal",
    **modes: Any,
) -> Case:
    """Return a recurrence whose nodes halt at different steps, unless `halting` is given.

    Settings of `ACT` among the `modes` are passed to its rule. A rule, a noise and the values of
    edges may be given as in `ROWS`.
    """
    rule = RULES[rule] if isinstance(rule, str) else rule
    modes["noise"] = InputNoise(0.5, noise) if isinstance(noise, str) else noise
    if edges is not None and edges[0] == "feat":
        modes["edge_dim"] = edges[1]
    if settings := {field.name for field in fields(ACT)} & modes.keys():
        rule = ACT(**{name: modes.pop(name) for name in settings})
    modes["position_signal"] = signal_from(position_signal, 9, seed=62)
    modes["step_signal"] = signal_from(step_signal, 9, seed=63)
    if halting is None:
        units = 1 if share_weights else max_steps
        halting = randomised(HaltingUnit(FEATS, units=units), seed=58)
        halting.linear.weight.data.mul_(1.7 if norm == "post" else 0.5)
        halting.linear.bias.data.fill_(-0.3)
    of_step = signature(build_step).parameters.keys() & modes.keys()
    shape = {"norm": norm, "form": form} | {name: modes.pop(name) for name in of_step}
    if share_weights:
        layer = AdaptiveRecurrence(
            build_step(**shape), halting, rule=rule, max_steps=max_steps, **modes
        )
    else:
        steps = [
            build_step(**shape, seed=100 * t, output_norm=t == max_steps - 1)
            for t in range(max_steps)
        ]
        layer = AdaptiveRecurrence(steps, halting, rule=rule, max_steps=max_steps, **modes)
    if graph is None:
        graph = rows_graph(lengths) if topology == "rows" else TOPOLOGIES[topology].layout(lengths)
    cross = None
    if form == "decoder":
        sources = [length % 3 + 1 for length in graph.dst_lengths.tolist()]
        memory = normal(sum(sources), 6, seed=61)
        cross = cross_edges(Complete(), graph.dst_lengths, sources), memory
    place = torch.cat([torch.arange(1, n + 1) for n in graph.dst_lengths.tolist()])
    feat = normal(graph.num_dst, FEATS, seed=60)
    case = Case(layer, graph, feat, place if positions else None, cross)
    if edges is not None:
        case.arguments[f"edge_{edges[0]}"] = normal(graph.num_edges, edges[1], seed=9)
    return case


@st.composite
def cases_on_any_graph(draw: st.DrawFn, **more: st.SearchStrategy[Any]) -> Case:
    """Recurrences in any mode, with any graph, halting pattern and number of steps."""
    graph = draw(multigraphs(live=True))
    factors = {name: st.sampled_from(values) for name, values in {**MODES, **SIGNALS}.items()}
    modes = {name: draw(values) for name, values in {**factors, **more}.items()}
    steps = draw(st.lists(st.integers(1, 5), min_size=graph[1], max_size=graph[1]))
    halting = ScheduledHalting(torch.tensor(steps))
    cap = draw(st.integers(1, 5))
    return build_case(**modes, graph=layout_of(*graph), halting=halting, max_steps=cap)
