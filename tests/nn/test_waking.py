"""The event-driven recurrence, compared with its reference and with `FixedDepth`."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from graphut._dgl import dgl
from graphut.attention import EdgeLayout
from graphut.nn import (
    AdaptiveRecurrence,
    ConvAsAttention,
    EventDriven,
    FixedDepth,
    HaltingUnit,
    InputNoise,
    PositionwiseTransition,
    Quantized,
    UniversalTransformerStep,
    waking,
)
from graphut.topology import Window
from tests.helpers import (
    Pairs,
    assert_same,
    covering,
    gradients,
    layout_of,
    multigraphs,
    name_of,
    normal,
    pairs_of,
    refuses,
    relative_error,
)
from tests.nn.cases import FEATS, HEADS, build_step, randomised, rows_graph
from tests.nn.reference import dense_event_driven

ROUNDS = 7


def one_way_graph() -> EdgeLayout:
    """Return three graphs: a path, a star with a parallel edge, and an isolated node."""
    path = [(i, i + 1) for i in range(7)]
    star = [(8, 9), (8, 10), (8, 10), (9, 8)]
    lengths = torch.tensor([8, 3, 1])
    return layout_of(path + star, 12, 12, src_lengths=lengths, dst_lengths=lengths)


def block_layout() -> EdgeLayout:
    """Return a layout with five destinations and three nodes that are only sources."""
    pairs = [(0, 0), (1, 0), (5, 1), (6, 2), (2, 2), (3, 3), (2, 3), (7, 4), (4, 4), (0, 1)]
    return layout_of(pairs, 8, 5)


GRAPHS = {
    "window": Window(1).layout([9, 1, 4]),
    "rows": rows_graph([4, 1, 5]),
    "one-way": one_way_graph(),
    "block": block_layout(),
}


def calm_step(norm: str = "post", scale: float = 0.5, **options: Any) -> UniversalTransformerStep:
    """Return a step with random parameters whose states soon stop changing."""
    step = build_step(norm=norm, **options)
    step.attention.allow_zero_in_degree = True
    for layer in (step.attention.output, step.transition.layers[-1]):
        layer.weight.data.mul_(scale)
    return step


def build(
    step: UniversalTransformerStep | None = None, *, norm: str = "post", **options: Any
) -> AdaptiveRecurrence:
    settings: dict[str, Any] = {"rule": EventDriven(0.2), "max_steps": ROUNDS, "step_signal": None}
    settings |= {"inject_input": True, **options}
    return AdaptiveRecurrence(calm_step(norm) if step is None else step, **settings).double()


def event_driven(layer: Any, *args: Any, **options: Any) -> tuple[Tensor, ...]:
    """Call the recurrence, with the results of `dense_event_driven`."""
    out, ponder = layer(*args, **options)
    return out, ponder.steps, ponder.last_change, ponder.rounds, ponder.quiescent


def run(recurrence: Any, layer: AdaptiveRecurrence, *args: Any, **options: Any) -> list[Tensor]:
    """Return all results, and the gradients of the output for all inputs."""
    torch.manual_seed(4)  # of noise
    found = recurrence(layer, *args, **options)
    given = [x for x in (*args, *options.values()) if isinstance(x, Tensor) and x.requires_grad]
    return [*found, *gradients([found[0]], [*given, *layer.parameters()])]


def same_as_reference(layer: AdaptiveRecurrence, *args: Any, **options: Any) -> list[Tensor]:
    """Compare the loop with its reference, with and without gradients; return the results."""
    found = run(event_driven, layer, *args, **options)
    assert_same(found, run(dense_event_driven, layer, *args, **options))
    torch.manual_seed(4)
    with torch.no_grad():
        assert_same(event_driven(layer, *args, **options), found[:5])
    return found


def arguments(layout: EdgeLayout, edges: str, positions: bool) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if positions:
        options["positions"] = torch.arange(layout.num_src) % 4 + 1
    if edges == "bias":
        options["edge_bias"] = normal(layout.num_edges, HEADS, seed=71)
    elif edges == "feat":
        options["edge_feat"] = normal(layout.num_edges, 3, seed=72)
    elif edges == "weight":
        options["edge_weight"] = normal(layout.num_edges, HEADS, seed=73)
    return options


@pytest.mark.parametrize(
    "modes",
    covering(
        norm=("post", "pre"),
        graph=list(GRAPHS),
        tol=(0.0, 0.1, 0.3),
        quantize=(None, Quantized(1), Quantized(2, 0.3)),
        edges=("none", "bias", "feat", "weight"),
        positions=(True, False),
        inject_input=(True, False),
    ),
    ids=name_of,
)
def test_event_driven_is_what_the_masked_reference_says(modes: dict[str, Any]) -> None:
    norm, graph, tol, edges, positions = (
        modes.pop(name) for name in ("norm", "graph", "tol", "edges", "positions")
    )
    step = calm_step(norm, edge_dim=3 if edges == "feat" else None)
    layer, layout = build(step, rule=EventDriven(tol), **modes), GRAPHS[graph]
    options = arguments(layout, edges, positions)
    same_as_reference(layer, layout, normal(layout.num_src, FEATS, seed=60), **options)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_event_driven_nodes_sleep_and_wake_and_graphs_end_at_different_rounds(norm: str) -> None:
    layer, layout = build(norm=norm, rule=EventDriven(0.05), max_steps=40), GRAPHS["one-way"]
    found = same_as_reference(layer, layout, normal(12, FEATS, seed=60))
    _, updates, last_change, rounds, quiescent = found[:5]
    assert quiescent.all() and len(rounds.unique()) > 1
    assert len(updates.unique()) > (3 if norm == "post" else 1)
    assert (last_change <= rounds[[0] * 8 + [1] * 3 + [2]]).all()
    layer.max_steps = 3
    found = same_as_reference(layer, layout, normal(12, FEATS, seed=60))
    assert found[4].tolist() == [False, False, False] and found[3].tolist() == [3, 3, 3]
    assert int(build(rule=EventDriven(9.0))(layout, normal(12, FEATS))[1].rounds.max()) == 1


@settings(max_examples=40)
@given(
    multigraphs(),
    st.sampled_from([0.0, 0.2]),
    st.sampled_from([None, Quantized(1)]),
    st.sampled_from([0, 100]),
)
def test_event_driven_on_any_graph(
    graph: tuple[Pairs, int, int], tol: float, quantize: Quantized | None, isolated: int
) -> None:
    pairs, num_src, num_dst = graph
    num_dst += isolated  # so many that a list of awake nodes is shorter than a mask
    num_src = max(num_src, num_dst)
    layer = build(rule=EventDriven(tol), quantize=quantize, inject_input=False)
    same_as_reference(layer, layout_of(pairs, num_src, num_dst), normal(num_src, FEATS, seed=60))


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("quantize", [None, Quantized(2)])
def test_event_driven_without_tolerance_is_the_synchronous_recurrence(
    norm: str, quantize: Quantized | None
) -> None:
    for rounds in (1, 2, 5):
        layer = build(norm=norm, rule=EventDriven(), quantize=quantize, max_steps=rounds)
        found, feat = [], normal(10, FEATS, seed=60)
        for rule in (EventDriven(), FixedDepth()):
            layer.rule = rule
            out, _ = layer(GRAPHS["rows"], feat)
            # A node that rests has the gradient of its last change.
            grads = [] if quantize else gradients([out], [feat, *layer.parameters()])
            found.append([out, *grads])
        assert_same(*found)


@pytest.mark.parametrize("rule", [EventDriven(), EventDriven(0.3), FixedDepth()])
def test_event_driven_with_noise_at_every_round_and_on_first_states(rule: Any) -> None:
    noise = (InputNoise(0.3, "every_step"), InputNoise(2.0, "first"))
    layer = build(rule=rule, noise=noise, quantize=Quantized(2, 0.3))
    args = GRAPHS["rows"], normal(10, FEATS, seed=60)
    torch.manual_seed(4)
    noisy = layer(*args)[0]
    if isinstance(rule, EventDriven):
        same_as_reference(layer, *args)
    layer.eval()
    quiet = layer(*args)[0]
    layer.noise, layer.quantize = None, Quantized(2)
    assert torch.equal(layer.train()(*args)[0], quiet) and not torch.equal(noisy, quiet)


# Other steps.


def conv_step(conv: Any) -> UniversalTransformerStep:
    transition = PositionwiseTransition(FEATS, 12, activation=nn.GELU())
    return randomised(UniversalTransformerStep(ConvAsAttention(conv, FEATS), transition))


def beside(**options: Any) -> UniversalTransformerStep:
    step = build_step(messages="beside", **options)
    step.attention.attention.allow_zero_in_degree = True
    return step


STEPS = {
    "gin": lambda: conv_step(dgl.nn.GINConv(nn.Linear(FEATS, FEATS))),
    "sage-max": lambda: conv_step(dgl.nn.SAGEConv(FEATS, FEATS, "pool")),
    "messages": lambda: build_step(messages="alone"),
    "messages-and-attention": beside,
}


@pytest.mark.parametrize("step", STEPS)
def test_event_driven_with_other_layers_in_the_place_of_attention(step: str) -> None:
    options: dict[str, Any] = {"quantize": Quantized(1)}
    layer = build(STEPS[step](), rule=EventDriven(), **options)
    for graph in ("rows", "one-way"):
        layout = GRAPHS[graph]
        same_as_reference(layer, layout, normal(layout.num_src, FEATS, seed=60))


def test_event_driven_without_nodes_or_with_one() -> None:
    layer = build()
    for nodes in (0, 1):
        layout = layout_of([], nodes, nodes)
        found = same_as_reference(layer, layout, normal(nodes, FEATS, seed=60))
        assert found[0].shape == (nodes, FEATS) and found[4].all()


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_event_driven_bfloat16_is_at_most_twice_as_far_off_as_the_masked_reference(
    norm: str,
) -> None:
    errors = []
    exact = build(norm=norm, rule=EventDriven(), max_steps=4)
    feat = normal(10, FEATS, seed=60, dtype=torch.float32)
    expected = exact(GRAPHS["rows"], feat.double())[0]
    for recurrence in (event_driven, dense_event_driven):
        layer = build(norm=norm, rule=EventDriven(), max_steps=4).float()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = recurrence(layer, GRAPHS["rows"], feat)
        errors.append(relative_error(found[0], expected))
    assert 1e-4 < errors[0] <= 2 * errors[1]


# The record.


@pytest.mark.parametrize("rule", [EventDriven(0.2), FixedDepth()])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_event_driven_rows_of_each_round(norm: str, rule: Any) -> None:
    layer, layout = build(norm=norm, rule=rule), GRAPHS["one-way"]
    feat = normal(12, FEATS, seed=60)
    out, ponder, rounds = layer(layout, feat, get_steps=True)
    count = torch.zeros(12, dtype=torch.int64)
    last = out.new_zeros(12, FEATS)
    for rows in rounds:
        assert rows.probability is None and rows.change.requires_grad
        count[rows.nodes] += 1
        last = last.index_copy(0, rows.nodes, rows.states)
        if isinstance(rule, EventDriven):
            assert torch.equal(rows.weights > 0, rows.change > 0.2**2)
    assert torch.equal(count, ponder.steps)
    assert ponder.frontier_sizes.tolist() == [len(rows.nodes) for rows in rounds]
    inputs, again = [feat, *layer.parameters()], layer(layout, feat)[0]
    assert_same([last, *gradients([last], inputs)], [again, *gradients([again], inputs)])


def test_event_driven_counts_its_work() -> None:
    layer, layout = build(), GRAPHS["one-way"]
    _, ponder, rounds = layer(layout, normal(12, FEATS, seed=60), get_steps=True)
    step = layer.step
    edges = sum(int(layout.in_degrees[rows.nodes].sum()) for rows in rounds)
    changed = sum(int((rows.weights > 0).sum()) for rows in rounds[:-1])
    assert (ponder.edges, ponder.computed) == (edges, ponder.steps.sum())
    assert ponder.projected == 12 + changed
    assert ponder.flops == (
        edges * step.attention.edge_flops
        + int(ponder.computed) * step.node_flops
        + int(ponder.projected) * step.attention.key_value_flops
    )
    assert ponder.flops < ponder.all_flops and ponder.cost == 0 and not ponder.remainder.any()
    assert ponder.all_edges == len(rounds) * layout.num_edges


def test_event_driven_keeps_the_features_that_were_given() -> None:
    layer, feat = build(inject_input=False, position_signal=None), normal(12, FEATS).detach()
    before = feat.clone()
    with torch.no_grad():
        layer(GRAPHS["one-way"], feat)
    assert torch.equal(feat, before)


# The cost of a round.


class Largest(TorchDispatchMode):
    """Record the largest tensor that operations of a round create, or read as a whole."""

    BY_INDEX = ("index_select", "index", "_embedding_bag", "index_copy_", "index_add_")
    BY_INDEX = (*BY_INDEX, "index_fill_", "index_put_")

    def __init__(self) -> None:
        super().__init__()
        self.now = (0, "")
        self.rounds: list[tuple[int, str]] = []

    def end_round(self) -> None:
        self.rounds.append(self.now)
        self.now = (0, "")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        tables = [] if func.is_view else pytree.tree_leaves(out)
        # Kernels get the whole table, and read the rows of the frontier's in-neighbours.
        by_index = name in self.BY_INDEX or name.startswith("new_")
        if not (func.is_view or by_index):
            tables += args
        if name.endswith("_") and by_index:
            tables = []
        tables = [x for x in tables if isinstance(x, Tensor)]
        for x in tables:
            self.now = max(self.now, (x.numel(), name))
        return out


def cost_step(kind: str) -> UniversalTransformerStep:
    if kind in STEPS:
        return STEPS[kind]()
    step = calm_step(edge_dim=3 if kind == "feat" else None)
    step.attention.allow_zero_in_degree = kind == "isolated-nodes"
    return step


@pytest.mark.parametrize("kind", ["isolated-nodes", "bias", "feat", *STEPS])
def test_event_driven_rounds_touch_no_table(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its first round, a wave on a long path costs only what its front costs."""
    nodes, rounds = 5000, 8
    pairs = pairs_of(Window(1).layout([nodes]))
    layout = layout_of(
        [p for p in pairs if kind != "isolated-nodes" or nodes - 1 not in p], nodes, nodes
    )
    layer = build(cost_step(kind), rule=EventDriven(0.0), max_steps=3)
    options, feat = arguments(layout, kind, positions=True), normal(nodes, FEATS).detach()
    mode, run_step = Largest(), waking.run_step

    def counted(*args: Any) -> Any:
        mode.end_round()  # with the first operations of this round
        return run_step(*args)

    with torch.no_grad():
        earlier = replace(layer(layout, feat, **options)[1], awake=torch.arange(0))
        feat[2000] += 1.0
        monkeypatch.setattr(waking, "run_step", counted)
        layer.rule = EventDriven(1e-2, max_rounds=rounds)
        mode.now = (0, "")
        with mode:
            options["changed"] = torch.tensor([2000])
            _, ponder = layer.resume(earlier, layout, feat, **options)
    sizes = ponder.frontier_sizes.tolist()
    assert len(sizes) == rounds and max(sizes) <= 2 * rounds + 3
    assert mode.rounds[0][0] >= nodes * FEATS  # the setup is seen
    for size, operation in mode.rounds[2:]:  # the first round checks all features
        assert size < nodes / 2, operation


# Continuing.


@pytest.mark.parametrize(
    "modes",
    covering(
        norm=("post", "pre"),
        tol=(0.05, 0.3),
        quantize=(None, Quantized(1)),
        change=("features", "edges", "nodes", "nothing", "source"),
    ),
    ids=name_of,
)
def test_resume_is_what_the_masked_reference_says(modes: dict[str, Any]) -> None:
    layer = build(
        norm=modes["norm"], rule=EventDriven(modes["tol"]), quantize=modes["quantize"], max_steps=20
    )
    source_only = modes["change"] == "source"
    layout, feat = GRAPHS["block" if source_only else "rows"], normal(10, FEATS, seed=60)
    feat = feat[: layout.num_src]
    ponder = layer(layout, feat)[1]
    shown, awake = ponder.shown, set(ponder.awake.tolist())
    none = torch.zeros(0, dtype=torch.int64)
    changed, edges_into = none, none
    if modes["change"] in ("features", "source"):
        changed = torch.tensor([6])
        feat = feat.index_add(0, changed, normal(1, FEATS, seed=61))
    elif modes["change"] == "edges":
        layout = layout_of([*pairs_of(layout)[1:], (3, 7), (2, 9)], 10, 10)
        edges_into = torch.tensor([7, 9, pairs_of(GRAPHS["rows"])[0][1]])
    elif modes["change"] == "nodes":
        changed, shown, awake = torch.tensor([8, 9]), shown[:8], awake & {*range(8)}
        ponder = replace(ponder, awake=torch.tensor(sorted(awake), dtype=torch.int64))
    targets = [d for s, d in pairs_of(layout) if s in changed.tolist()]
    own = [node for node in changed.tolist() if node < layout.num_dst]
    awake |= {*own, *targets, *edges_into.tolist()}
    frontier = torch.tensor(sorted(awake), dtype=torch.int64)
    given = {} if modes["change"] == "nodes" else {"changed": changed}

    def resumed(layer: AdaptiveRecurrence, *args: Any) -> tuple[Tensor, ...]:
        layout, feat, shown = args
        earlier = replace(ponder, shown=shown)
        return event_driven(
            partial(layer.resume, earlier), layout, feat, edges_into=edges_into, **given
        )

    def reference(layer: AdaptiveRecurrence, *args: Any) -> tuple[Tensor, ...]:
        layout, feat, shown = args
        return dense_event_driven(layer, layout, feat, shown=shown, frontier=frontier)

    args = layout, feat, shown.detach().requires_grad_()
    found = run(resumed, layer, *args)
    assert_same(found, run(reference, layer, *args))
    if modes["change"] == "nothing" and not len(frontier):
        assert not found[1].any() and found[4].all()


@pytest.mark.parametrize(("quantize", "rounds"), [(None, 1), (Quantized(1), 2), (None, 4)])
def test_resume_ends_a_run_that_was_cut_off_as_if_it_had_gone_on(
    quantize: Quantized | None, rounds: int
) -> None:
    rule, args = EventDriven(0.05, 60), (GRAPHS["one-way"], normal(12, FEATS, seed=60))
    layer = build(rule=rule, quantize=quantize)
    out, whole, _ = layer(*args, get_steps=True)
    assert whole.quiescent.all() and not len(whole.awake) and whole.num_cut_off == 0
    layer.rule = replace(rule, max_rounds=rounds)
    _, cut = layer(*args)
    assert cut.awake.tolist() == whole.frontiers[rounds].tolist()
    assert cut.num_cut_off == int((~cut.quiescent).sum()) == int((whole.rounds > rounds).sum()) > 0
    assert f"num_cut_off={cut.num_cut_off})" in repr(cut) and "cut" not in repr(whole)
    _, still = layer.resume(cut, *args)  # may be cut off, too
    layer.rule = rule
    resumed, rest = layer.resume(still, *args)
    assert_same([resumed], [out])
    assert torch.equal(cut.steps + still.steps + rest.steps, whole.steps)
    assert torch.equal(cut.rounds + still.rounds + rest.rounds, whole.rounds)
    assert rest.quiescent.all()


def test_resume_after_a_cut_off_does_not_rest_before_the_news_has_arrived() -> None:
    """A change at one end of a path, while the wave from the other end is still under way."""
    layout, feat = Window(1).layout([300]), normal(300, FEATS, seed=60).detach()
    layer = build(rule=EventDriven(), quantize=Quantized(1), max_steps=3, norm="post")
    _, cut = layer(layout, feat)
    changed, ends = torch.tensor([299]), {298, 299}
    _, ponder, _ = layer.resume(cut, layout, feat, changed=changed, get_steps=True)
    assert set(ponder.frontiers[0].tolist()) == ends | set(cut.awake.tolist()) != ends
    layer.rule = EventDriven(max_rounds=1)
    assert not layer.resume(cut, layout, feat, changed=changed)[1].quiescent


def test_resume_refuses_what_does_not_fit() -> None:
    layer, layout, feat = build(), GRAPHS["rows"], normal(10, FEATS)
    ponder, shown = layer(layout, feat)[1], torch.zeros(10, FEATS).double()

    def check(words: str, earlier: Any = ponder, **options: Any) -> None:
        refuses(words, layer.resume, earlier, layout, feat, **options)

    for wrong, words in (
        (torch.zeros(11, FEATS).double(), r"\(11, 8\)"),
        (shown.float(), "float32"),
        (shown.to("meta"), "meta"),
    ):
        check(
            rf"shown must be \(M, 8\) .* most 10 rows; got .*{words}", replace(ponder, shown=wrong)
        )
    check("changed must be a 1-D int64 tensor, got", changed=torch.ones(10).bool())
    check("edges_into refers to node 10, but", edges_into=torch.tensor([3, 10]))
    layer.rule = FixedDepth()
    check("resume is for the rule EventDriven, but .* FixedDepth")
    fixed, layer.rule = layer(layout, feat)[1], EventDriven()
    check(r"Ponder\(nodes=10, .* is not the record of a run with", fixed)


# Refused settings.


def test_event_driven_refuses() -> None:
    def check(words: str, *steps: Any, **options: Any) -> None:
        given: dict[str, Any] = {"rule": EventDriven(), "step_signal": None, **options}
        refuses(f"EventDriven.* {words}", AdaptiveRecurrence, *steps, **given)

    step = build_step()
    check("a step signal, .*: give step_signal=None", step, step_signal="sinusoidal")
    check("a halting module, .*: give halting=None", step, halting=HaltingUnit(FEATS))
    check("a decoder step", build_step(form="decoder"))
    check("a separable convolution", build_step(transition="sepconv"))
    check("one step for all .* not 2", [step, build_step()], max_steps=2)
    layer = build()
    layer.step_signal = torch.sin  # changed later
    refuses("a step signal", layer, GRAPHS["rows"], normal(10, FEATS))
    norm = nn.Sequential(nn.Linear(FEATS, FEATS), nn.BatchNorm1d(FEATS))
    refuses("BatchNorm1d, whose statistics depend", build, conv_step(dgl.nn.GINConv(norm)))


def test_event_driven_names_a_node_that_is_not_finite() -> None:
    layer = build(rule=EventDriven(9.0), inject_input=False, position_signal=None)
    layer.step.transition.layers[-1].bias.data[2] = torch.inf
    layer.step.transition_norm = nn.Identity()
    words = "feature 2 of node 0 is inf in round 1: a weight"
    refuses(words, layer, GRAPHS["rows"], normal(10, FEATS))
