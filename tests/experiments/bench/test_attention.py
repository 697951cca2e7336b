from typing import Any

import pytest
import torch
from torch import Tensor

from graphut.attention import BACKENDS, Backend
from graphut.attention.backend import AttentionCall, AttentionResult
from graphut.attention.kernel_library import PHASES
from graphut.experiments.bench.attention import bench_attention
from graphut.experiments.bench.attention_workload import AttentionWorkload
from graphut.experiments.bench.driver import Row
from graphut.experiments.bench.peers import PEERS
from tests.experiments.bench.cases import small_call


def rows_of(
    workload: AttentionWorkload, backends: list[str], peers: list[str], **options: Any
) -> dict[str, Row]:
    rows = bench_attention([workload], backends=backends, peers=peers, repeats=1, **options)
    return {row["contender"]: row for row in rows}


@pytest.mark.parametrize("spec", ["window:1", "window:1|global:0"])
def test_bench_attention_has_figures_of_all_that_run(spec: str) -> None:
    workload = small_call(spec=spec, fraction=0.5)
    rows = rows_of(workload, ["torch", "dgl"], ["padded", "flex"])
    assert rows.pop("flex")["note"] == "cannot run: flex_attention has no backward on the CPU"
    matmul = rows.pop("matrix product")
    assert matmul["gflop_s"] == pytest.approx(2e-6 * 1024**3 / matmul["ms"])
    for row in rows.values():
        assert "note" not in row and row["error"] < 1e-12
        assert row["gflop_s"] == pytest.approx(1e-6 * workload.flops / row["ms"])
        assert row["matmul_share"] == pytest.approx(row["gflop_s"] / matmul["gflop_s"])
        assert row["workload"] == f"{spec}, 3x2-7, 8 features, 50% active, float64"


def test_bench_attention_runs_all_backends_and_peers_by_default() -> None:
    rows = bench_attention([small_call(shape="1x3")], repeats=1, cold=True)
    names = [name for name in BACKENDS if name != "dense"] + list(PEERS)
    assert [row["contender"] for row in rows] == [*names, "matrix product"]
    workloads = {row["workload"] for row in rows}
    assert workloads == {"causal, 1x3, 8 features, float64, cold caches"}


def test_bench_attention_compares_the_time_of_an_edge_among_topologies() -> None:
    calls = [small_call(spec=spec, shape="1x9") for spec in ("window:1", "complete")]
    rows = bench_attention(calls, repeats=1)[:-1]
    assert [row["contender"] for row in rows] == ["window:1", "complete"]
    assert {row["workload"] for row in rows} == {"1x9, 8 features, float64"}
    for row, edges in zip(rows, (25, 81), strict=True):
        assert row["error"] < 1e-12
        assert row["ns_per_edge"] == pytest.approx(1e6 * row["ms"] / edges)
    rows = bench_attention(calls, backends=["torch"], peers=["padded"], repeats=1)
    assert [row["contender"] for row in rows[1:3]] == ["window:1, padded", "complete, torch"]


def test_bench_attention_compares_bfloat16_with_float32() -> None:
    rows = rows_of(small_call(dtype=torch.bfloat16), ["torch"], [])
    assert list(rows) == ["torch", "float32", "matrix product"]
    assert rows["float32"]["error"] < 1e-5 < 1e-4 < rows["torch"]["error"] < 2e-2


def test_bench_attention_measures_the_phases_of_the_native_kernel() -> None:
    rows = rows_of(small_call(spec="complete", shape="2x40"), ["native"], [], phases=True)
    assert [name for name in rows if name.startswith("native, ")] == [
        f"native, {phase}" for phase in PHASES
    ]
    assert all(row["ms"] > 0 for row in rows.values())
    rows = rows_of(small_call(spec="window:2"), ["native"], [], phases=True)  # by another kernel
    assert list(rows) == ["native", "matrix product"]


@pytest.mark.parametrize("which", ["output", "query", "key", "value"])
def test_bench_attention_has_no_figures_of_a_wrong_result(
    which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(call: AttentionCall) -> AttentionResult:
        out = BACKENDS["torch"].attend(call).out
        if which == "output":
            return AttentionResult(out * 1.03)
        tensor: Tensor = getattr(call, which)
        gradients_alone = 0.03 * (tensor.sum() - tensor.sum().detach())
        return AttentionResult(out + gradients_alone)

    monkeypatch.setitem(BACKENDS, "wrong", Backend(name="wrong", attend=wrong))
    row = rows_of(small_call(), ["wrong", "torch"], [])["wrong"]
    assert "ms" not in row and "peak_mib" not in row
    assert row["note"].startswith("wrong by ")
    if which == "output":
        assert row["note"] == "wrong by 3e-02"


def test_bench_attention_says_why_a_contender_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(call: AttentionCall) -> AttentionResult:
        raise RuntimeError("no compiler\nand a long story")

    def not_a_number(call: AttentionCall) -> AttentionResult:
        return AttentionResult(call.query * torch.nan)

    monkeypatch.setitem(BACKENDS, "broken", Backend(name="broken", attend=broken))
    monkeypatch.setitem(BACKENDS, "nan", Backend(name="nan", attend=not_a_number))
    rows = rows_of(small_call(), ["broken", "nan", "torch"], [])
    notes = {name: row.get("note") for name, row in rows.items() if name != "matrix product"}
    expected = ["cannot run: no compiler", "wrong: not a number", None]
    assert notes == dict(zip(("broken", "nan", "torch"), expected, strict=True))


@pytest.mark.gpu
def test_bench_attention_on_a_gpu() -> None:
    call = small_call(device=torch.device("cuda"), dtype=torch.float32)
    rows = bench_attention([call], repeats=2)
    assert any(row["contender"] in BACKENDS and "ms" in row for row in rows)
    assert all(row["peak_mib"] is not None for row in rows if "ms" in row)
