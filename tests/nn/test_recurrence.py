import math
import re
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from graphut._dgl import dgl
from graphut.nn import (
    ACT,
    AdaptiveRecurrence,
    Convergence,
    EventDriven,
    FixedDepth,
    HaltingUnit,
    MultiHeadAttention,
    PositionwiseTransition,
    ScheduledHalting,
    Threshold,
    UniversalTransformerStep,
    coordinate_signal,
)
from graphut.topology import Complete, Window
from tests.helpers import (
    Pairs,
    assert_same,
    covering,
    cross_edges,
    gradients,
    layout_of,
    multigraphs,
    name_of,
    normal,
    refuses,
    relative_error,
)
from tests.nn.cases import (
    BLOCK,
    FEATS,
    HALTED,
    HEADS,
    MODES,
    PAIRS,
    ROWS,
    SCHEDULES,
    Case,
    build_case,
    build_step,
    cases_on_any_graph,
    engine,
    modes_of,
    run_step,
    same_as_dense,
)
from tests.nn.reference import dense_recurrence

# Against the oracle, over modes, graphs and lengths.


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_recurrence_equals_the_dense_reference(row: dict[str, Any]) -> None:
    steps = same_as_dense(build_case(**row))
    assert row not in PAIRS or len(steps.unique()) > 1


@pytest.mark.parametrize(
    "row", covering(schedule=list(SCHEDULES), **modes_of("norm", "halted")), ids=name_of
)
def test_recurrence_schedules(row: dict[str, Any]) -> None:
    schedule = SCHEDULES[row.pop("schedule")]
    halting = ScheduledHalting(torch.tensor(schedule))
    case = build_case(halting=halting, topology="rows", form="decoder", **row)
    assert same_as_dense(case).tolist() == [min(step, 5) for step in schedule]


@settings(max_examples=30)
@given(cases_on_any_graph(share_weights=st.booleans()))
def test_recurrence_any_graph_and_halting_pattern(case: Case) -> None:
    same_as_dense(case)


@pytest.mark.parametrize("backend", ["dense", "dgl", "torch"])
def test_recurrence_every_backend(backend: str) -> None:
    case = build_case(topology="causal", form="decoder")
    case.layer.step.attention.backend = backend
    case.layer.step.cross_attention.backend = backend
    same_as_dense(case)


# Precision.


@pytest.mark.parametrize("row", PAIRS, ids=name_of)
def test_recurrence_float32(row: dict[str, Any]) -> None:
    same_as_dense(build_case(**row).to(torch.float32), 1e-5)


HALVES = covering(
    halted=HALTED, norm=MODES["norm"], transition=MODES["transition"], form=MODES["form"]
)


@pytest.mark.parametrize("modes", HALVES, ids=name_of)
def test_recurrence_bfloat16_is_at_most_twice_as_far_off_as_dense_bfloat16(
    modes: dict[str, Any],
) -> None:
    lengths = [20, 13]
    steps = torch.randint(1, 6, (33,), generator=torch.Generator().manual_seed(0))
    case = build_case(**modes, lengths=lengths, halting=ScheduledHalting(steps))
    half = case.to(torch.bfloat16)
    found, dense = half.run(engine), half.run(dense_recurrence)
    truth = half.to(torch.float64).run(dense_recurrence)
    assert found[0].dtype == torch.bfloat16
    assert torch.equal(found[1], truth[1])
    assert relative_error(found[0], truth[0]) <= 2 * relative_error(dense[0], truth[0])
    assert total_error(found[3:], truth[3:]) <= 2 * total_error(dense[3:], truth[3:])


def test_recurrence_bfloat16_weights_sum_probabilities_in_float32() -> None:
    unit = HaltingUnit(FEATS, bias_init=-4.0, gain=0.0)
    case = build_case(halting=unit, max_steps=80).to(torch.bfloat16)
    probability = unit.linear.bias.detach().float().sigmoid().item()
    steps = math.ceil(0.99 / probability)  # bfloat16 would round each sum
    _, ponder = case.layer(case.graph, case.feat)
    assert 40 < steps < 80 and ponder.steps.tolist() == [steps] * 10
    rest = torch.full((10,), 1.0 - (steps - 1) * probability)
    assert_same([ponder.remainder, ponder.cost], [rest, (rest + steps).mean()], 1e-3)


def total_error(found: list[Tensor], truth: list[Tensor]) -> float:
    """Return the relative error of all gradients, concatenated."""
    return relative_error(*(torch.cat([x.double().flatten() for x in g]) for g in (found, truth)))


@pytest.mark.parametrize("modes", HALVES, ids=name_of)
def test_recurrence_autocast_counts_and_halts_in_float32(modes: dict[str, Any]) -> None:
    steps = torch.tensor([1, 3, 2, 5, 4, 2, 2, 1, 5, 3])
    case = build_case(**modes, halting=ScheduledHalting(steps)).to(torch.float32)
    exact = case.run(engine)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = case.run(engine)
    assert found[2].dtype == torch.float32
    assert_same(found[1:3], exact[1:3])
    assert relative_error(found[0], exact[0]) < 0.02
    assert total_error(found[3:], exact[3:]) < 0.05


# Settings.


@pytest.mark.gpu
@pytest.mark.parametrize("modes", PAIRS, ids=name_of)
def test_recurrence_a_graph_on_the_cpu_serves_features_on_the_gpu(modes: dict[str, Any]) -> None:
    case = build_case(**modes)
    expected = engine(case.layer, case.graph, case.feat, **case.arguments)
    cross = case.cross and (case.cross[0], case.cross[1].cuda())
    arguments = {"positions": case.positions, "cross": cross}
    found = engine(case.layer.cuda(), case.graph, case.feat.cuda(), **arguments)
    assert_same([x.cpu() for x in found], expected)


# The work.


def rows_through(*modules: nn.Module) -> dict[nn.Module, list[int]]:
    """Return lists that receive the number of rows of each later call of a module."""
    counts: dict[nn.Module, list[int]] = {module: [] for module in modules}
    for module in modules:
        module.register_forward_hook(lambda m, args, _: counts[m].append(args[0].shape[0]))
    return counts


# Rows that each step projects: its frontier, and the nodes that halted in the step before.
PROJECTED = {
    ("copied", "post"): [10, 10, 6, 3, 1],
    ("frozen", "post"): [10, 10, 6, 3, 1],
    ("stale", "post"): [10, 6, 3, 1, 1],
    ("running", "post"): [10, 10, 10, 10, 10],
    ("copied", "pre"): [10, 10, 10, 10, 10],
    ("frozen", "pre"): [10, 10, 6, 3, 1],
    ("stale", "pre"): [10, 6, 3, 1, 1],
    ("running", "pre"): [10, 10, 10, 10, 10],
}


@pytest.mark.parametrize(
    ("transition", "form"), [("positionwise", "decoder"), ("sepconv", "encoder")]
)
@pytest.mark.parametrize(("halted", "norm"), PROJECTED)
def test_recurrence_a_step_costs_what_its_frontier_costs(
    halted: str,
    norm: str,
    transition: str,
    form: str,
    edges_seen: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = [10, 6, 3, 1, 1]
    halting = ScheduledHalting(torch.tensor([1, 2, 1, 5, 3, 1, 2, 3, 2, 1]))
    modes = {"halted": halted, "norm": norm, "transition": transition, "form": form}
    case = build_case(**modes, halting=halting, topology="causal", max_steps=8)
    step = case.layer.step
    attention = step.attention
    counts = rows_through(attention.query, attention.output, step.transition.layers)
    projected, project = [], MultiHeadAttention.project

    def count(layer: MultiHeadAttention, rows: Tensor) -> Tensor:
        if layer is attention:
            projected.append(len(rows))
        return project(layer, rows)

    monkeypatch.setattr(MultiHeadAttention, "project", count)  # the layer has no method of its own
    _, ponder = case.layer(case.graph, case.feat, **case.arguments)

    computed = [10] * 5 if halted == "running" else sizes
    assert [*counts.values()] == [computed] * 3
    assert projected == PROJECTED[halted, norm]
    assert ponder.frontier_sizes.tolist() == [*sizes, 0, 0, 0]
    assert int(ponder.computed.sum()) == sum(computed)
    assert int(ponder.projected.sum()) == sum(projected)
    assert int(ponder.edges) == sum(edges_seen)
    assert int(ponder.flops) == (
        sum(computed) * step.node_flops
        + sum(projected) * step.attention.key_value_flops
        + sum(edges_seen) * step.attention.edge_flops
        + (0 if case.cross is None else len(case.cross[1]) * step.cross_attention.key_value_flops)
    )


# Bad input.

CASE = build_case()
POSITIONS = "positions must be (10,), one for each node, or (10, coordinates); got shape "


def broken(value: float) -> Tensor:
    feat = CASE.feat.detach().clone()
    feat[3, 2] = value
    return feat


def test_recurrence_refuses_arguments_that_do_not_fit() -> None:
    def check(words: str, **changed: Any) -> None:
        refuses(re.escape(words), CASE.layer, **{"graph": CASE.graph, "feat": CASE.feat, **changed})

    CASE.layer(CASE.graph, CASE.feat)
    check("feature 2 of node 3 is nan", feat=broken(math.nan))
    check("feature 2 of node 3 is inf", feat=broken(math.inf))
    check(f"{POSITIONS}(10, 1, 1)", positions=torch.zeros(10, 1, 1))
    check("positions must be a tensor, got list; convert it", positions=[1, 2])
    check("8 features do not divide into 3 coordinates", positions=torch.zeros(10, 3))
    check("3 destination and 2 source nodes", graph=cross_edges(Complete(), [3], [2]))
    check("an EdgeLayout, got tuple: a topology has", graph=(torch.tensor([0]),) * 2)
    check("Layout; pass the graph first", graph=CASE.feat, feat=Complete().layout([3]))


@pytest.mark.parametrize("norm", MODES["norm"])
@pytest.mark.parametrize("halted", HALTED)
def test_recurrence_on_a_block_with_all_in_edges_is_that_on_the_whole_graph(
    halted: str, norm: str
) -> None:
    """The nodes of the outermost of four blocks are up to four edges away from the seeds."""
    graph, seeds = Window(1).graph([40]), torch.tensor([17, 3, 30])
    sampler = dgl.dataloading.MultiLayerFullNeighborSampler(4)
    sources, _, (block, *_) = sampler.sample_blocks(graph, seeds)
    case = build_case(halted=halted, norm=norm, lengths=[40], max_steps=4)
    whole = engine(case.layer, graph, case.feat, positions=case.positions)
    found = engine(case.layer, block, case.feat[sources], positions=case.positions[sources])
    found, whole = [x[:3] for x in found[:3]], [x[seeds] for x in whole[:3]]
    assert len(sources) < 40 and len(whole[1].unique()) > 1
    assert_same(found, whole)
    assert_same(gradients(found[::2], case.inputs), gradients(whole[::2], case.inputs))


@pytest.mark.parametrize("norm", MODES["norm"])
@pytest.mark.parametrize("halted", HALTED)
def test_recurrence_sources_outside_a_block_are_as_if_halted_before_the_first_step(
    halted: str, norm: str
) -> None:
    layer = build_case(halted=halted, norm=norm).layer
    layer.halting = ScheduledHalting(torch.tensor([3, 3]))
    feat = normal(5, FEATS)
    out, ponder = layer(BLOCK, feat)
    state, wanted = feat[:2], torch.zeros(2, FEATS).double()
    signals = coordinate_signal(torch.arange(1, 4), FEATS, torch.float64)
    for signal, weight in zip(signals, (0.01, 0.01, 0.98), strict=True):
        of_others = signal if halted in ("copied", "running") else signals[0]
        state = run_step(layer.step, BLOCK, torch.cat([state + signal, feat[2:] + of_others]))
        wanted = wanted + weight * state
    assert ponder.steps.tolist() == [3, 3]
    assert relative_error(out, layer.step.readout(wanted)) < 1e-10


def test_recurrence_a_halting_unit_reads_what_it_learned_from_under_other_rules() -> None:
    case = build_case(rule=ACT(halt_from="output"))
    case.layer.evaluation_rule = Convergence(0.3)
    *_, rows = case.layer.eval()(case.graph, case.feat, **case.arguments, get_steps=True)
    assert len(rows) > 1
    for step in rows:
        assert_same([step.probability], [case.layer.halting(step.states)])


@pytest.mark.parametrize("modes", covering(halted=HALTED, norm=MODES["norm"], halts=(True, False)))
def test_recurrence_a_graph_without_nodes(modes: dict[str, Any]) -> None:
    modes = dict(modes)
    halts = modes.pop("halts")
    layer = build_case(**modes).layer
    layer.halting = layer.halting if halts else None
    feat = torch.zeros(0, FEATS, dtype=torch.float64, requires_grad=True)
    out, ponder = layer(dgl.graph(([], [])), feat)
    assert (out.shape, ponder.steps.shape, ponder.remainder.shape) == ((0, FEATS), (0,), (0,))
    assert ponder.cost == 0 and ponder.flops == 0
    (out.sum() + ponder.cost).backward()
    assert feat.grad is not None


UNIT = HaltingUnit(FEATS)
STEP = build_step()


def test_recurrence_refuses_settings_that_do_not_fit() -> None:
    def check(words: str, *parts: Any, **settings: Any) -> None:
        refuses(words, AdaptiveRecurrence, *(parts or [STEP]), **settings)

    check("halted must be one of 'copied'.*; got 'nil'", halted="nil")
    changed = AdaptiveRecurrence(STEP)
    changed.halted = "nil"
    loop = dgl.graph(([0], [0]))
    refuses("^halted must be one of 'copied'.*; got 'nil'", changed, loop, torch.ones(1, FEATS))
    check("unit reads 6 features, but a state has 8", STEP, HaltingUnit(6))
    check("is a UniversalTransformerStep, got MultiHeadAtt", MultiHeadAttention(8, 2))
    check("noise is .* such as .* got 0.3", noise=0.3)
    check("must be .*'sinusoidal0', None.* 'sine'", position_signal="sine")
    check("position_signal must be .* 'learned'", position_signal="learned")
    check("step_signal must .*'learned', None, .* got 'learnt'", step_signal="learnt")
    check("quantize is .* such as .* got 2", quantize=2)
    for number in (0, -1, 2.5, True):
        check(f"a whole number, at least 1; got {number}", max_steps=number)
    check(r"such as ACT\(\), got 'act'; parse_rule\('act'\) ret", rule="act")
    check(r"a rule is a HaltingRule such as ACT\(\), got <", STEP, UNIT, evaluation_rule=ACT)
    check(r"ACT\(.*\) needs a halting module, such as", evaluation_rule=ACT())
    output = Threshold(halt_from="output")
    check(r"same halt_from in ACT\(.*Threshold\(", STEP, UNIT, evaluation_rule=output)
    rules = {"rule": FixedDepth("output"), "evaluation_rule": Threshold()}
    check(r"same halt_from in FixedDepth\(.*and Threshold\(", STEP, UNIT, **rules)
    two = [STEP, build_step()]
    check("each of the 2 steps needs .*units=2", two, HaltingUnit(8), max_steps=2)
    check("units of each step need a sequence", STEP, HaltingUnit(8, units=2))
    rule = EventDriven()
    check("needs one step for all", two, None, max_steps=2, rule=rule, step_signal=None)


def test_recurrence_rules_without_a_value_are_the_usual_ones() -> None:
    plain, layer = AdaptiveRecurrence(STEP), AdaptiveRecurrence(STEP, UNIT)
    assert (plain.rule, layer.rule) == (FixedDepth(), ACT())
    layer.rule = ACT(halt_from="output")
    layer.rule, layer.evaluation_rule = None, Convergence()
    assert (layer.rule, layer.eval().active_rule) == (ACT(), Convergence())


# The module.


@pytest.mark.parametrize("tracks", [True, False])
def test_recurrence_refuses_batch_statistics_of_active_nodes(tracks: bool) -> None:
    norm, unit = nn.BatchNorm1d(12, track_running_stats=tracks), HaltingUnit(FEATS)
    transition = PositionwiseTransition(FEATS, 12, activation=norm)
    step = UniversalTransformerStep(MultiHeadAttention(FEATS, HEADS), transition)
    words = "ACT.* BatchNorm1d, whose statistics depend on which nodes are active: use LayerNorm"
    refuses(words, AdaptiveRecurrence, step, unit)
    in_steps = {"rule": FixedDepth(), "evaluation_rule": ACT()}
    mixed = {"halted": "running", "evaluation_halted": "frozen"}
    if not tracks:
        refuses(words, AdaptiveRecurrence, step, unit, **in_steps)
        refuses(words, AdaptiveRecurrence, step, unit, **mixed)
    layers = [AdaptiveRecurrence(step, unit, halted="running")]
    modes = (in_steps, mixed) if tracks else ()
    layers += [AdaptiveRecurrence(step, unit, **mode).eval() for mode in modes]
    graph, feat = Complete().graph([4, 2]), torch.randn(6, FEATS)
    for layer in layers:
        assert_same([layer(graph, feat)[0]], [dense_recurrence(layer, graph, feat)[0]], 1e-5)


@pytest.mark.parametrize("share_weights", [True, False])
def test_recurrence_parameters_are_drawn_anew(share_weights: bool) -> None:
    form = {"form": "decoder", "transition": "sepconv"}
    layer = build_case(share_weights=share_weights, **form).layer
    before = [parameter.clone() for parameter in layer.parameters()]
    layer.reset_parameters()
    assert not any(torch.equal(a, b) for a, b in zip(before, layer.parameters(), strict=True))
    if share_weights:
        assert layer.halting.linear.bias.item() == layer.halting.bias_init
    else:
        assert not torch.equal(*(step.attention.query.weight for step in layer.step[:2]))


@pytest.mark.parametrize("halted", HALTED)
@pytest.mark.parametrize("rule", [ACT(), FixedDepth(), Threshold()], ids=str)
def test_recurrence_halting_probabilities_of_each_step(halted: str, rule: Any) -> None:
    case = build_case(halted=halted, rule=rule)
    _, ponder, _, rows = case.layer(
        case.graph, case.feat, **case.arguments, get_attention=True, get_steps=True
    )
    step = torch.arange(1, len(rows) + 1)[:, None]
    assert torch.equal(ponder.halting.isnan(), step > ponder.steps)
    for probability, own in zip(ponder.halting, rows, strict=True):
        assert torch.equal(probability[own.nodes], own.probability)
    assert case.layer(case.graph, case.feat)[1].halting is None


@settings(max_examples=20)
@given(multigraphs(live=True), st.data())
def test_recurrence_new_numbers_for_nodes_and_edges_change_nothing_else(
    graph: tuple[Pairs, int, int], data: st.DataObject
) -> None:
    pairs, nodes, _ = graph
    number = data.draw(st.permutations(range(nodes)))
    order = data.draw(st.permutations(range(len(pairs))))
    moved = [(number[pairs[e][0]], number[pairs[e][1]]) for e in order]
    halted = data.draw(st.sampled_from(HALTED))
    case = build_case(graph=layout_of(pairs, nodes, nodes), positions=False, halted=halted)
    feat, bias = case.feat, normal(len(pairs), HEADS, seed=9)
    *before, _ = engine(case.layer, case.graph, feat, edge_bias=bias)
    there = torch.tensor(number).argsort()
    layout = layout_of(moved, nodes, nodes)
    *after, _ = engine(case.layer, layout, feat[there], edge_bias=bias[torch.tensor(order)])
    assert_same(after, [part[there] for part in before])
