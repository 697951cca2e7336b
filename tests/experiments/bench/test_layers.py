from __future__ import annotations

import pytest

from graphut.experiments.bench import driver
from graphut.experiments.bench.layers import PEERS, bench_layers, bench_scaling, random_blocks
from graphut.topology import Topology


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"nodes": 0, "edges": 9}, "--nodes must be at least 1, got 0"),
        ({"nodes": 5, "edges": -1}, "--edges must be at least 0, got -1"),
        ({"nodes": 5, "edges": 9, "seeds": 0}, "--seeds must be at least 1, got 0"),
        ({"nodes": 5, "edges": 9, "seeds": 6}, "--seeds 6 is more than the 5 nodes"),
    ],
)
def test_random_blocks_refuses_impossible_sizes(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        random_blocks(**sizes)


def test_random_blocks_by_a_power_law_has_hubs() -> None:
    even, skewed = (random_blocks(500, 5000, power_law=law)[0] for law in (False, True))
    assert even.num_edges() == skewed.num_edges() == 5500
    assert int(skewed.out_degrees().max()) > 10 * int(even.out_degrees().max())


@pytest.mark.parametrize("seeds", [None, 5])
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_bench_layers_compares_outputs_times_and_memory(seeds: int | None) -> None:
    pytest.importorskip("torch_geometric")
    rows = bench_layers(60, 400, seeds=seeds, dim=8, heads=2, repeats=1)
    errors = {row["contender"]: row["error"] for row in rows}
    assert list(errors) == [
        "DotGATConv", "DotGATConv, own maps", "MultiHeadAttention", "TransformerConv", *PEERS
    ]  # fmt: skip
    found = {name: error for name, error in errors.items() if error is not None}
    assert list(found) == ["DotGATConv", "TransformerConv"] and max(found.values()) < 1e-5
    blocks = ", blocks for 5 nodes" if seeds else ""
    assert {row["workload"] for row in rows} == {f"60 nodes, 400 edges{blocks}, 8 features"}


def test_bench_scaling_runs_the_layer_on_each_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths, results = [], []
    layout = Topology.layout

    def spy(self: Topology, given: list[int]) -> object:
        lengths.append(given)
        return layout(self, given)

    monkeypatch.setattr(Topology, "layout", spy)
    monkeypatch.setattr(driver, "peak_bytes", lambda run, device: results.append(run()))
    rows = bench_scaling("window:1", [9, 5, 9], dim=8, heads=2, repeats=2)
    assert [row["contender"] for row in rows] == ["5 tokens", "9 tokens"]
    assert sorted(lengths) == [[5]] * 4 + [[9]] * 4
    assert [(len(out), out.requires_grad) for out in results] == [(5, False), (9, False)]
