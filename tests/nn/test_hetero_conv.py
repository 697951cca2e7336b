import pickle
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor

from graphut._dgl import dgl
from graphut.attention import as_layout
from graphut.nn import HeteroAdaptiveConv
from tests.helpers import assert_same, gradients, normal, refuses
from tests.nn.cases import Case, same_as_dense
from tests.nn.hetero import CITES, EDGES, METADATA, WRITES, X, build
from tests.nn.reference import dense_recurrence


def attend(layer: Any, now: dict[str, Tensor], edges: Any) -> dict[str, Tensor]:
    """Return the attention of each node, by loops over node types, nodes and edge types."""
    of, out = dict(zip(edges, layer.key_values, strict=True)), {}
    for number, kind in enumerate(now):
        rows = []
        for node, own in enumerate(now[kind]):
            query = layer.query[number](own).view(layer.num_heads, -1)
            scores, values = [], []
            for name, (source, target) in edges.items():
                for j in source[target == node].tolist() if name[2] == kind else ():
                    key, value = of[name](now[name[0]][j]).chunk(2)
                    scores.append((query * key.view_as(query)).sum(1) / query.shape[1] ** 0.5)
                    values.append(value.view_as(query))
            read = torch.zeros_like(query)
            if values:
                share = torch.stack(scores).softmax(0)
                read = (share[:, :, None] * torch.stack(values)).sum(0)
            rows.append(layer.output(read.flatten()))
        out[kind] = torch.stack(rows) if rows else now[kind]
    return out


def draw_schema(seed: int) -> tuple[Any, dict[str, int], dict[str, Tensor], Any]:
    """Draw node and edge types, some without in-edges or without nodes, features and edges."""
    random = torch.Generator().manual_seed(seed)

    def draw(low: int, high: int, *shape: int) -> Any:
        return torch.randint(low, high, shape, generator=random)

    kinds = [f"type.{i}" for i in range(int(draw(1, 5)))]
    counts = [int(draw(0, 6)) for _ in kinds]
    counts[0] += 1
    edges = {}
    for number in range(int(draw(1, 7))):
        a, b = draw(0, len(kinds), 2).tolist()
        size = int(draw(0, 9)) if counts[a] and counts[b] else 0
        ends = [draw(0, max(counts[end], 1), size) for end in (a, b)]
        edges[kinds[a], f"edge {number}", kinds[b]] = torch.stack(ends)
    sizes = {kind: int(draw(1, 7)) for kind in kinds}
    x = {
        kind: torch.randn(count, sizes[kind], dtype=torch.double, generator=random).requires_grad_()
        for kind, count in zip(kinds, counts, strict=True)
    }
    return (kinds, [*edges]), sizes, x, edges


@pytest.mark.parametrize("seed", range(20))
def test_hetero_adaptive_conv_equals_a_loop_over_edge_types(seed: int) -> None:
    metadata, sizes, x, edges = draw_schema(seed)
    conv = build(metadata, sizes)
    layout, feat, rows = conv.union(x, edges)
    states = {kind: feat[rows[kind]] for kind in metadata[0]}
    maps = dict(zip(conv.node_types, conv.input_maps, strict=True))
    assert_same([*states.values()], [maps[kind](x[kind]) for kind in states])
    step: Any = conv.recurrence.steps[0]
    read = attend(step.attention, states, {k: edges[k] for k in conv.edge_types})
    found = step.attention(layout, feat)
    assert_same([found[rows[kind]] for kind in read], [*read.values()])
    wanted, steps, _, cost = dense_recurrence(conv.recurrence, layout, feat)
    out, inputs = conv(x, edges), [*x.values(), *conv.parameters()]
    assert torch.equal(conv.ponder.steps, steps)
    found = [*out.values(), conv.ponder.cost]
    expected = [*(wanted[rows[kind]] for kind in out), cost]
    assert_same(found + gradients(found, inputs), expected + gradients(expected, inputs))
    graph = dgl.heterograph({k: (*e,) for k, e in edges.items()}, {k: len(f) for k, f in x.items()})
    assert_same([*conv(graph, x).values()], [*out.values()])


def test_hetero_adaptive_conv_decides_about_widths_in_the_first_call() -> None:
    torch.manual_seed(0)
    conv = HeteroAdaptiveConv(-1, 8, METADATA).double()
    out = conv(X, EDGES)
    again = HeteroAdaptiveConv({"a": 4, "p": 6}, 8, METADATA).double()
    again.load_state_dict(conv.state_dict())
    for copy in (again, deepcopy(conv), pickle.loads(pickle.dumps(conv))):
        assert not hasattr(copy, "ponder")
        assert_same([*copy(X, EDGES).values()], [*out.values()])
    conv.reset_parameters()
    assert not torch.equal(conv(X, EDGES)["p"], out["p"])
    assert repr(conv) == "HeteroAdaptiveConv(8, 2 node types, 3 edge types)"


def test_an_edge_type_without_edges_needs_no_nodes() -> None:
    metadata = (["a", "b"], [("a", "to", "a"), ("b", "to", "a")])
    conv, x, loop = HeteroAdaptiveConv(3, 8, metadata), {"a": torch.randn(4, 3)}, ("a", "to", "a")
    edges = {loop: torch.tensor([[0, 1], [1, 2]])}
    none = {("b", "to", "a"): torch.zeros(2, 0, dtype=torch.int64)}
    torch.testing.assert_close(conv(x, edges | none)["a"], conv(x, edges)["a"])


def test_hetero_adaptive_conv_refuses() -> None:
    conv = build()
    typed: Any = conv.recurrence.steps[0].attention
    graph = dgl.heterograph({k: (*e,) for k, e in EDGES.items()}, {"a": 3, "p": 5})
    kinds: Any = (["a"], [WRITES])
    refuses(r"unknown edge types .*'reads'", conv, X, {("a", "reads", "p"): EDGES[WRITES]})
    refuses(r"unknown node types \['p'\]", build, kinds)
    refuses(r"a triple \(source, name, .*got 'wri", build, (["a"], ["writes"]))
    refuses(r"pair of node types .*got <built-in method .*pass data.metadata\(\)", build, X.items)
    refuses("heads must be at least 1", HeteroAdaptiveConv, 4, 8, METADATA, heads=None)
    refuses(
        r"there are edges of \('a', .*but x has no 'a': give .*Embedding",
        conv,
        {"p": X["p"]},
        EDGES,
    )
    infinite = {"a": X["a"], "p": X["p"] / 0}
    refuses(r"x\['p'\]\[0, 0\] is -?inf: it must be finite", conv, infinite, EDGES)
    refuses(r"of each node type in metadata, \['a', 'p'\], got {'a': 4}", build, sizes={"a": 4})
    refuses(r"conv\(data.x_dict, data.edge_.*; got conv\(dict, Tensor\)", conv, X, EDGES[WRITES])
    refuses(r"got conv\(DGLGraph, Tensor\)", conv, graph, X["a"])
    refuses(r"edge_index of .*x has only 3 row", conv, {"a": X["a"], "p": X["p"][:3]}, EDGES)
    refuses("edges of .*'p'.*, but x has no 'p'", conv, graph, {"a": X["a"]})
    refuses("5 'p' nodes, but x has 3 rows", conv, graph, {"a": X["a"], "p": X["a"]})
    refuses("'a' nodes must be .*, 4\\), one row", conv, {"a": X["p"], "p": X["p"]}, EDGES)
    refuses(r"with .to\(dtype\)", conv, {k: x.float() for k, x in X.items()}, EDGES)
    refuses(r"x\['a'\] must be \(N, F\), one row", conv, {**X, "a": X["a"][None]}, EDGES)
    refuses("0 'a' nodes, but", conv, dgl.heterograph({("v", "r", "v"): ([0], [1])}), X)
    refuses("HeteroAdaptiveConv.union", typed, as_layout(graph, CITES), normal(5, 8))
    layout, feat, _ = conv.union(X, EDGES)
    refuses("not support edge_feat", conv.recurrence, layout, feat, edge_feat=normal(12, 2))
    refuses("a block has no states of sources .*ShaDow", conv, dgl.to_block(graph), X)


@pytest.mark.parametrize("training", [True, False])
def test_hetero_adaptive_conv_with_batch_norm_equals_masks(training: bool) -> None:
    conv = build(norm="batch", activation=None, feed_forward=False, halting_bias=-2.0)
    for _ in range(3):
        conv(X, EDGES)
    conv.train(training)
    layout, feat, _ = conv.union(X, EDGES)
    steps = same_as_dense(Case(conv.recurrence, layout, feat.detach().requires_grad_()))
    assert len(steps.unique()) > 1
