from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from graphut.experiments.bench import scaling
from graphut.experiments.bench.scaling import bench_scaling, slopes
from graphut.topology import Star, Topology, Window

MIB = 1 << 20


def rows_of(*rows: tuple[int, float, int | None]) -> list[dict[str, Any]]:
    return [{"nodes": n, "seconds": {"median": s}, "peak_bytes": peak} for n, s, peak in rows]


def test_slopes_are_exponents() -> None:
    linear = slopes(rows_of((10, 0.01, MIB), (100, 0.1, 10 * MIB), (1000, 1.0, 100 * MIB)))
    assert linear == {"time_slope": pytest.approx(1), "memory_slope": pytest.approx(1)}
    square = slopes(rows_of((10, 0.01, MIB), (100, 1.0, 10 * MIB)))
    assert square["time_slope"] == pytest.approx(2)
    assert slopes(rows_of((10, 0.01, MIB), (100, 1.0, None)))["memory_slope"] is None


def test_bench_scaling_runs_the_layer_on_each_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    layout = Topology.layout

    def spy(self: Topology, lengths: list[int]) -> object:
        seen.append(lengths)
        return layout(self, lengths)

    monkeypatch.setattr(Topology, "layout", spy)
    monkeypatch.setattr(scaling, "peak_bytes", lambda run, device: run().numel())
    found = bench_scaling(topology=Window(1), nodes=[9, 5, 9], dim=8, heads=2, repeats=2)
    assert [(r["nodes"], r["edges"], r["peak_bytes"]) for r in found["rows"]] == [
        (5, 13, 40),
        (9, 25, 72),
    ]
    assert sorted(seen) == [[5]] * 4 + [[9]] * 4
    assert json.loads(json.dumps(found))["rows"][1]["seconds"]["median"] > 0


def test_bench_scaling_keeps_no_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = []
    monkeypatch.setattr(scaling, "peak_bytes", lambda run, device: kept.append(run().requires_grad))
    bench_scaling(nodes=[5, 9], dim=8, heads=2, repeats=1)
    assert kept == [False, False] and torch.is_grad_enabled()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": [5, -3]}, r"a sentence has at least 1 token, got nodes=\[5, -3\]"),
        ({"dim": -8}, "in_feats must be at least 1, got -8"),
        ({"topology": Star()}, "star has nodes that are not tokens"),
    ],
)
def test_bench_scaling_refuses_impossible_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bench_scaling(**{"nodes": [5, 9], **options})


@pytest.mark.parametrize("nodes", [[], [5], [5, 5]])
def test_bench_scaling_refuses_fewer_than_two_sizes(nodes: list[int]) -> None:
    with pytest.raises(ValueError, match="two different numbers of nodes at least, got"):
        bench_scaling(nodes=nodes)
