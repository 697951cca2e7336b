from __future__ import annotations

import pytest
import torch

from graphut.experiments.bench.layers import LayerProblem, bench_layers
from graphut.experiments.bench.report import report_text

pytest.importorskip("torch_geometric")


def test_layer_problem_is_the_same_at_each_call() -> None:
    sampled = {"nodes": 60, "edges": 400, "power_law": True, "seeds": 5}
    first, second = LayerProblem(**sampled).blocks, LayerProblem(**sampled).blocks
    for a, b in zip(first, second, strict=True):
        assert torch.equal(torch.stack(a.edges()), torch.stack(b.edges()))
    assert [b.num_dst_nodes() for b in first] == [first[1].num_src_nodes(), 5]
    assert int(first[1].in_degrees().max()) <= 10


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"dim": 6}, "6 features do not divide into 4 heads"),
        ({"nodes": 0}, "no graph has 0 nodes and 9 edges: give at least one"),
        ({"seeds": 6}, "5 nodes, 6 of them seeds, and 9 edges"),
        ({"edges": -1}, "-1 edges"),
    ],
)
def test_layer_problem_refuses_impossible_sizes(sizes: dict[str, int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        LayerProblem(**{"nodes": 5, "edges": 9, **sizes})


def test_layer_problem_by_a_power_law_has_hubs() -> None:
    even, skewed = (
        LayerProblem(nodes=500, edges=5000, power_law=law).blocks[0] for law in (False, True)
    )
    assert even.num_edges() == skewed.num_edges() == 5500
    assert int(skewed.out_degrees().max()) > 10 * int(even.out_degrees().max())


@pytest.mark.parametrize("seeds", [None, 5])
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_bench_layers_compares_outputs_times_and_memory(seeds: int | None) -> None:
    problem = LayerProblem(nodes=60, edges=400, seeds=seeds, dim=8, heads=2)
    report = bench_layers(problem, repeats=1)
    rows = {row["name"]: row for row in report["rows"]}
    assert len(rows) == 7
    assert [name for name, row in rows.items() if row["error"] is not None] == [
        "DotGATConv",
        "TransformerConv",
    ]
    assert all(row["error"] < 1e-5 for row in rows.values() if row["error"] is not None)
    for name, row in rows.items():
        assert row["seconds"]["median"] > 0
        assert row["times_faster_than"].get(name, 1.0) == 1.0
    lines = report_text(report).splitlines()
    layers = "2 layer(s)" if seeds else "1 layer(s): 60 to 60 nodes, 460 edges"
    assert lines[0].startswith(layers) and len(lines) == 3 + len(rows)
