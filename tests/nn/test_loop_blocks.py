from typing import Any

import pytest
import torch
from torch import Tensor

from graphut._dgl import DGLGraph, dgl
from graphut.nn import AdaptiveRecurrence, Global
from tests.helpers import assert_same, covering, gradients, name_of, normal, refuses
from tests.nn.cases import FEATS, HEADS, MODES, Case, build_case, rows_graph

STEPS = 4
SEEDS = torch.tensor([17, 3, 30])


def big_graph() -> DGLGraph:
    """Return a sparse graph with 40 nodes; 4 steps from 3 nodes do not reach all of them."""
    nodes = torch.arange(40)
    order = torch.randperm(80, generator=torch.Generator().manual_seed(0))
    source, target = torch.cat([nodes, nodes]), torch.cat([nodes, (nodes + 9) % 40])
    return dgl.graph((source[order], target[order]))


def blocks_of(graph: DGLGraph, seeds: Tensor, steps: int) -> list[DGLGraph]:
    """Return blocks with all in-edges of the seeds, of their sources, and so on."""
    blocks: list[DGLGraph] = []
    for _ in range(steps):
        block = dgl.to_block(dgl.in_subgraph(graph, seeds), seeds)
        block.edata[dgl.EID] = dgl.in_subgraph(graph, seeds).edata[dgl.EID][block.edata[dgl.EID]]
        seeds = block.srcdata[dgl.NID]
        blocks.insert(0, block)
    return blocks


def case_of(modes: dict[str, Any], **options: Any) -> Case:
    return build_case(graph=rows_graph([40]), max_steps=STEPS, **modes, **options)


def check_blocks(case: Case, **of_edges: Tensor) -> Tensor:
    """Compare blocks with all in-edges and the whole graph; return the steps of nodes."""
    graph, layer, feat = big_graph(), case.layer, case.feat
    blocks = blocks_of(graph, SEEDS, STEPS)
    first = blocks[0].srcdata[dgl.NID]
    assert SEEDS.numel() < blocks[1].num_src_nodes() < first.numel() < 40
    place = case.positions
    of_blocks = {
        name: [given[block.edata[dgl.EID]] for block in blocks] for name, given in of_edges.items()
    }
    out, ponder = layer(graph, feat, positions=place, **of_edges)
    expected = [out[SEEDS], ponder.steps[SEEDS], ponder.remainder[SEEDS]]
    some = None if place is None else place[first]
    out, ponder = layer(blocks, feat[first], positions=some, **of_blocks)
    found = [out, ponder.steps, ponder.remainder]
    assert_same(found, expected)
    inputs = [feat, *layer.parameters(), *of_edges.values()]
    assert_same(gradients(found[::2], inputs), gradients(expected[::2], inputs))
    return ponder.steps


DESIGN = covering(
    **{name: MODES[name] for name in ("halted", "weighting", "norm", "positions", "relative")},
    halt_from=MODES["halt_from"],
    forced_remainder=(True, False),
)


@pytest.mark.parametrize("modes", DESIGN, ids=name_of)
def test_blocks_all_in_edges_give_what_the_whole_graph_gives(modes: dict[str, Any]) -> None:
    check_blocks(case_of(modes))


@pytest.mark.parametrize("halted", MODES["halted"])
def test_blocks_each_block_has_its_own_values_of_edges(halted: str) -> None:
    edges = big_graph().num_edges()
    values = {"edge_bias": normal(edges, HEADS, seed=5), "edge_feat": normal(edges, 3, seed=6)}
    values["edge_weight"] = normal(edges, seed=7)
    check_blocks(case_of({"halted": halted}, edge_dim=3), **values)


@pytest.mark.parametrize("halted", MODES["halted"])
def test_blocks_all_nodes_halt_at_once_or_never(halted: str) -> None:
    case = case_of({"halted": halted})
    assert len(case.layer(big_graph(), case.feat)[1].steps.unique()) > 1  # in the other tests
    case.layer.halting.linear.bias.data.fill_(9.0)  # type: ignore[union-attr, operator]
    assert check_blocks(case).tolist() == [1] * 3
    case.layer.halting = None
    assert check_blocks(case).tolist() == [STEPS] * 3


@pytest.mark.parametrize("bias", [9.0, -9.0])
@pytest.mark.parametrize("halted", MODES["halted"])
def test_blocks_whose_first_sources_are_all_destinations(halted: str, bias: float) -> None:
    """On a cycle of 4 nodes, all nodes of the first block are destinations, and halt at once."""
    case = build_case(graph=rows_graph([4]), max_steps=STEPS, halted=halted)
    case.layer.halting.linear.bias.data.fill_(bias)  # type: ignore[union-attr, operator]
    graph = dgl.graph(([0, 1, 2, 3], [1, 2, 3, 0]))
    blocks = blocks_of(graph, torch.tensor([2]), STEPS)
    first = blocks[0].srcdata[dgl.NID]
    assert blocks[0].num_dst_nodes() == len(first) == 4
    positions = None if case.positions is None else case.positions[first]
    out, ponder = case.layer(blocks, case.feat[first], positions=positions)
    whole, all_nodes = case.layer(graph, case.feat, positions=case.positions)
    assert_same([out, ponder.steps], [whole[[2]], all_nodes.steps[[2]]])
    costs = all_nodes.steps + all_nodes.remainder
    assert_same([ponder.remainder, ponder.cost], [all_nodes.remainder[[2]], costs[2]])


def test_blocks_a_neighbour_sampler_of_dgls() -> None:
    case, graph = case_of({}), big_graph()
    sampler = dgl.dataloading.MultiLayerFullNeighborSampler(STEPS)
    first, seeds, blocks = sampler.sample_blocks(graph, SEEDS)
    out, ponder, weights = case.layer(blocks, case.feat[first], get_attention=True)
    assert_same([out], [case.layer(graph, case.feat)[0][seeds]])
    assert [len(w) for w in weights] == [block.num_edges() for block in blocks]
    assert ponder.all_edges == sum(block.num_edges() for block in blocks)


def recurrence(**modes: Any) -> AdaptiveRecurrence:
    return build_case(max_steps=2, **modes).layer


def test_blocks_that_do_not_fit() -> None:
    graph = big_graph()
    first, last = blocks_of(graph, SEEDS, 2)
    feat = normal(first.num_src_nodes(), FEATS)
    with pytest.raises(ValueError, match=r"got 1 blocks for max_steps=2; sample one for each step"):
        recurrence()([last], normal(last.num_src_nodes(), FEATS))
    with pytest.raises(ValueError, match="block 0 has 3 destinations, but block 1 has"):
        recurrence()([last, first], normal(last.num_src_nodes(), FEATS))
    with pytest.raises(ValueError, match="edge_bias has 1 entries for 2 blocks"):
        recurrence()([first, last], feat, edge_bias=[torch.zeros(first.num_edges())])
    refuses("a convolution needs sentences", recurrence(transition="sepconv"), [first, last], feat)
    refuses("not a list of blocks", recurrence(form="decoder"), [first, last], feat)


def test_blocks_a_list_of_one_block_is_no_whole_graph() -> None:
    [block] = blocks_of(big_graph(), SEEDS, 1)
    feat = normal(block.num_src_nodes(), FEATS)
    layer = build_case(max_steps=1).layer
    assert layer([block], feat, get_attention=True)[1].attention is None
    layer.rule = Global()
    refuses("needs whole graphs, not sampled blocks", layer, [block], feat)
