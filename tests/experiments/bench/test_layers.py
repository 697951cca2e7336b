import pytest

from graphut.experiments.bench.layers import PEERS, bench_layers, random_blocks
from graphut.experiments.bench.options import LayerOptions


def test_random_blocks_by_a_power_law_has_hubs() -> None:
    even, skewed = (random_blocks(500, 5000, power_law=law)[0] for law in (False, True))
    assert even.num_edges() == skewed.num_edges() == 5500
    assert int(skewed.out_degrees().max()) > 10 * int(even.out_degrees().max())


@pytest.mark.parametrize("seeds", [None, 5])
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_bench_layers_compares_outputs_times_and_memory(seeds: int | None) -> None:
    pytest.importorskip("torch_geometric")
    rows = bench_layers(LayerOptions(nodes=60, edges=400, seeds=seeds, dim=8, heads=2, repeats=1))
    errors = {row["contender"]: row["error"] for row in rows}
    assert list(errors) == [
        "MultiHeadAttention", "TransformerConv", *PEERS
    ]  # fmt: skip
    found = {name: error for name, error in errors.items() if error is not None}
    assert list(found) == ["TransformerConv"] and max(found.values()) < 1e-5
    blocks = ", blocks for 5 nodes" if seeds else ""
    assert {row["workload"] for row in rows} == {f"60 nodes, 400 edges{blocks}, 8 features"}
