"""Two and three processes with parts of a graph, compared with one process that has all of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from graphut.attention import EdgeLayout
from graphut.distributed import Halo, Part, cut_graph
from graphut.nn import (
    ACT,
    AdaptiveRecurrence,
    EventDriven,
    HaltingUnit,
    InputNoise,
    MessageAggregation,
    MultiHeadAttention,
    Quantized,
    ScheduledHalting,
)
from tests.experiments.training.together import run_together
from tests.helpers import assert_same, layout_of, normal, pairs_of, refuses
from tests.nn.cases import FEATS, HALTED, RULES, Case, build_case, build_step, randomised

# Node 9 and node 10 read only themselves, node 11 reads nothing, and nobody reads node 10.
PAIRS = (
    [(i, i) for i in range(11)] + [(i, (i + 1) % 9) for i in range(9)] + [(0, i) for i in (3, 5)]
)
PAIRS += [(7, 2), (8, 2), (4, 8), (9, 1), (2, 7)]
GRAPH = layout_of(PAIRS, 12, 12)
# Parts of unequal size; of three parts, one has a single node without edges.
CUTS = {2: [0, 1, 0, 0, 1, 0, 0, 1, 1, 0, 0, 0], 3: [0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 2]}
Results = list[Tensor]


def own_part(layout: EdgeLayout, part_of: list[int], **of_edges: Tensor) -> Part:
    edges = np.array(pairs_of(layout), np.int64).T
    arrays = {name: rows.detach().numpy() for name, rows in of_edges.items()}
    return [*cut_graph(edges, np.array(part_of), of_edges=arrays)][dist.get_rank()]


def direction(rows: Tensor, seed: int) -> Tensor:
    """Return random numbers in the shape of `rows`, for a scalar to derive."""
    return torch.randn(rows.shape, generator=torch.Generator().manual_seed(seed)).double()


def results(found: Any, inputs: list[Tensor], nodes: Tensor, size: int) -> tuple[Results, Results]:
    """Return the results for `nodes` of `size`, and the gradients of a sum over all nodes."""
    out, ponder, rows = found
    each = [out, ponder.remainder.double()]
    loss = sum((x * direction(x.new_empty(size, *x.shape[1:]), 5)[nodes]).sum() for x in each)
    loss = loss + ponder.cost * len(nodes) / size
    ids = [nodes[step.nodes] for step in rows]
    for name in ("states", "weights", "change"):
        for step, own in zip(rows, ids, strict=True):
            values = getattr(step, name).double()
            upstream = direction(values.new_empty(size, *values.shape[1:]), 6)[own]
            loss = loss + (values * upstream).sum()
    grads = torch.autograd.grad(loss, inputs, allow_unused=True, materialize_grads=True)
    kept = [*each, ponder.steps, ponder.cost * len(nodes) / size]
    if ponder.rounds is not None:
        kept += [ponder.rounds, ponder.quiescent, ponder.last_change]
    return [x.detach() for x in kept], [*grads]


def alone(case: Case) -> tuple[Results, Results]:
    """Return the results and the gradients of one process that has the whole graph."""
    size = case.graph.num_dst
    torch.manual_seed(4)  # of noise
    found = case.layer(case.graph, case.feat, get_steps=True, **case.arguments)
    return results(found, case.inputs, torch.arange(size), size)


def together(case: Case, part: Part) -> tuple[Results, Results]:
    """Return the results of the nodes of this process, and the gradients of all processes."""
    layout, size = part.layout, part.num_nodes
    arguments = dict(case.arguments)
    if case.positions is not None:
        arguments["positions"] = case.positions[part.nodes]
    of_edges = list(part.arrays)
    for name in of_edges:
        arguments[name] = torch.from_numpy(part.arrays[name]).requires_grad_()
    if isinstance(schedule := case.layer.halting, ScheduledHalting):
        case.layer.halting = ScheduledHalting(schedule.steps[part.nodes])
    feat = case.feat.detach()[part.nodes].requires_grad_()
    weights = [*case.layer.parameters()]
    inputs = [feat, *(arguments[name] for name in of_edges), *weights]
    torch.manual_seed(4 + dist.get_rank())  # the seed of the first process counts
    found = case.layer(layout, feat, get_steps=True, **arguments)
    case.layer.halting = schedule
    own, grads = results(found, inputs, part.nodes, size)
    for grad in grads[-len(weights) :]:
        dist.all_reduce(grad)
    dist.all_reduce(own[3])  # the ponder cost
    return own, grads


def compare(case: Case, expected: tuple[Results, Results], part_of: list[int]) -> None:
    """Compare this process with one that has the whole graph."""
    of_edges = ("edge_bias", "edge_feat", "edge_weight")
    names = [name for name in of_edges if case.arguments.get(name) is not None]
    part = own_part(case.graph, part_of, **{name: case.arguments[name] for name in names})
    found, grads = together(case, part)
    wanted = [x[part.nodes] if x.shape[:1] == (case.graph.num_dst,) else x for x in expected[0]]
    assert_same(found, wanted)
    mine = torch.tensor([part_of[t] == dist.get_rank() for _, t in pairs_of(case.graph)])
    rows = [part.nodes, *[mine] * len(names)]
    wanted = [x[own] for x, own in zip(expected[1], rows, strict=False)] + expected[1][len(rows) :]
    assert_same(grads, wanted)


def case_of(rule: Any, **options: Any) -> Case:
    """Return a recurrence on the graph, in which node 11 has no in-edges."""
    case = build_case(graph=GRAPH, rule=rule, **options)
    for module in case.layer.modules():
        if isinstance(module, MultiHeadAttention):
            module.allow_zero_in_degree = True
    return case


def waking_case(tol: float = 0.3, norm: str = "post", **options: Any) -> Case:
    step = build_step(norm=norm)
    step.attention.allow_zero_in_degree = True
    rule = EventDriven(tol=tol, max_rounds=7)
    layer = AdaptiveRecurrence(step, rule=rule, step_signal=None, inject_input=True, **options)
    return Case(layer, GRAPH, normal(12, FEATS, seed=60), torch.arange(1, 13))


def normed_case() -> Case:
    """Return a recurrence whose batch normalisation has statistics from training."""
    step: Any = build_step(batch_norm=5)
    step.attention.allow_zero_in_degree = True
    layer = AdaptiveRecurrence(step, randomised(HaltingUnit(FEATS)), max_steps=5, step_signal=None)
    feat = normal(12, FEATS, seed=60)
    for _ in range(3):
        layer(GRAPH, feat)
    return Case(layer.eval(), GRAPH, feat, torch.arange(1, 13))


def cases() -> Iterator[tuple[str, Case]]:
    for number, (name, rule) in enumerate(RULES.items()):
        yield name, case_of(rule, halted=HALTED[number % 4])
    for halted in HALTED:
        for norm in ("post", "pre"):
            yield f"act {halted} {norm}", case_of(ACT(), halted=halted, norm=norm)
    yield "no signals", case_of(ACT(), step_signal=None, position_signal=None, inject_input=True)
    for halted in HALTED:  # all nodes of some parts halt long before others
        steps = torch.tensor([5 - 4 * (p > 0) for p in CUTS[3]])
        yield f"at rest {halted}", case_of(ACT(), halting=ScheduledHalting(steps), halted=halted)
    yield "separate steps", case_of(None, share_weights=False, max_steps=3)
    yield "batch norm in evaluation", normed_case()
    noise = [InputNoise(0.3, place) for place in ("first", "every_step")]
    yield "noise", case_of(ACT(), inject_input=True, noise=noise)
    with_edges = case_of(ACT(), edge_dim=3)
    with_edges.arguments["edge_feat"] = normal(len(PAIRS), 3, seed=7)
    with_edges.arguments["edge_bias"] = normal(len(PAIRS), seed=8)
    with_edges.arguments["edge_weight"] = normal(len(PAIRS), seed=9)
    yield "edges", with_edges
    for tol in (0.0, 0.1, 0.3):
        for norm in ("post", "pre"):
            yield f"waking {tol} {norm}", waking_case(tol, norm=norm)
    yield "waking noise", waking_case(noise=noise)
    yield "waking quantized", waking_case(tol=0.0, quantize=Quantized(2, 0.3))
    for aggregators in (["max"], ["max", "sum"]):
        messages = waking_case()
        messages.layer.step.attention = randomised(
            MessageAggregation(FEATS, aggregators, attention=messages.layer.step.attention)
        )
        yield f"waking {aggregators}", messages
    hooked = waking_case()
    hooked.layer.step.register_forward_hook(lambda module, args, out: out / 2)
    yield "waking hooks", hooked


def check_calls(rank: int) -> None:
    """Check attention, and the calls without gradients, in one of two processes."""
    part_of = CUTS[2]
    part = own_part(GRAPH, part_of)
    assert part.halo is not None
    attention, feat = build_step().attention, normal(12, FEATS)
    attention.allow_zero_in_degree = True
    whole, weights = attention(GRAPH, feat), [*attention.parameters()]
    wanted = torch.autograd.grad((whole * direction(whole, 5)).sum(), [feat, *weights])
    own = feat.detach()[part.nodes].requires_grad_()
    found = attention(part.layout, part.halo.fetch(own))
    assert_same([found], [whole[part.nodes]])
    loss = (found * direction(whole, 5)[part.nodes]).sum()
    grads = torch.autograd.grad(loss, [own, *weights])
    for grad in grads[1:]:
        dist.all_reduce(grad)
    assert_same(grads, [wanted[0][part.nodes], *wanted[1:]])
    for case in (case_of(ACT()), waking_case()):
        with torch.no_grad():
            wanted = case.layer(GRAPH, case.feat)[0][part.nodes]
            assert_same([case.layer(part.layout, case.feat[part.nodes])[0]], [wanted])
    seen, layer = [], normed_case().layer.train()
    norm: Any = layer.step.attention_norm
    norm.reset_parameters()
    norm.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    layer(part.layout, normal(12, FEATS)[part.nodes])
    assert len(seen[0]) == len(part.nodes)  # each process measures its own rows
    assert_same([norm.running_mean[0]], [0.1 * seen[0].mean(0)])
    total = torch.tensor(2.0, requires_grad=True)
    part.halo.sum(total * (rank + 1)).backward()
    assert part.halo.sum(total).item() == 4.0 and total.grad == torch.tensor(2.0 * (rank + 1))


def check_errors(rank: int) -> None:
    """Check what a part of a graph does not support, in one of two processes."""
    part, layer = own_part(GRAPH, CUTS[2]), waking_case().layer
    feat = normal(len(part.nodes), FEATS)
    refuses("a part of a graph does not support resume", layer.resume, feat, part.layout, feat)
    with pytest.raises(ValueError, match=r"a part .* a separable convolution"):
        case_of(ACT(), transition="sepconv").layer(part.layout, feat)
    with pytest.raises(ValueError, match=r"source nodes must be .\d, 8., one row"):
        layer(part.layout, normal(len(part.nodes) + 1, FEATS))
    with pytest.raises(ValueError, match="a part reads a node that its owner does not have"):
        Halo(torch.tensor([rank, 5]), 1, 12, torch.tensor([rank, 1 - rank]))


@pytest.mark.parametrize("processes", [2, 3])
def test_recurrences_on_parts_equal_the_whole_graph(processes: int, tmp_path: Path) -> None:
    expected = [(name, case, alone(case)) for name, case in cases()]

    def check() -> None:
        for name, case, wanted in expected[:: processes - 1]:  # three processes are slower
            print(name)  # for the log of a failure
            compare(case, wanted, CUTS[processes])
        if processes == 2:
            check_calls(dist.get_rank())
            check_errors(dist.get_rank())

    run_together(check, tmp_path, processes)
