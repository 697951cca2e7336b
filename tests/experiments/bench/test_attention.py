from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch import Tensor

from graphut.attention import BACKENDS, Backend
from graphut.attention.backend import AttentionResult
from graphut.attention.call import AttentionCall
from graphut.experiments.bench import attention
from graphut.experiments.bench.attention import (
    backend_names,
    bench_attention,
    best_backend,
    matrix_product,
)
from graphut.experiments.bench.implementations import UnavailableError
from graphut.experiments.bench.peers import PEERS
from graphut.experiments.bench.workloads import AttentionProblem, Sizes
from graphut.topology import Topology
from tests.experiments.bench.cases import TOPOLOGIES, problem

NAN = Backend(name="nan", attend=lambda call: AttentionResult(call.query * torch.nan))


def rows_of(case: AttentionProblem, backends: list[str], peers: list[str]) -> dict[str, Any]:
    report = bench_attention(case, backends=backends, peers=peers, repeats=1)
    return {row["name"]: row for row in report["rows"]}


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=str)
def test_bench_attention_has_figures_of_all_that_run(topology: Topology) -> None:
    case = problem(topology=topology, fraction=0.5)
    rows = rows_of(case, ["torch", "dgl"], ["padded", "sentences", "flex"])
    assert rows.pop("flex")["reason"] == "flex_attention has no backward on the CPU"
    for row in rows.values():
        assert row["reason"] is None and "seconds" in row
        assert row["error"] is not None and row["error"] < 1e-12


def test_bench_attention_runs_all_backends_and_peers_by_default() -> None:
    report = bench_attention(problem(sizes=Sizes(1, 3, 3)), repeats=1)
    names = [row["name"] for row in report["rows"]]
    assert names == [name for name in BACKENDS if name != "dense"] + list(PEERS)
    assert [row["name"] for row in report["rows"] if row["backend"]] == backend_names()


def test_bench_attention_with_edge_bias_and_forward_only() -> None:
    case = problem(biased=True, forward_only=True)
    assert all("seconds" in row for row in rows_of(case, ["torch", "dgl"], []).values())


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
    row = rows_of(problem(), ["wrong", "torch"], [])["wrong"]
    assert "seconds" not in row and "peak_bytes" not in row
    assert row["reason"] is not None and row["reason"].startswith("wrong by ")
    if which == "output":
        assert row["reason"] == "wrong by 3e-02"


def test_bench_attention_has_no_figures_of_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BACKENDS, "nan", NAN)
    assert rows_of(problem(), ["nan"], [])["nan"]["reason"] == "wrong: not a number"


def test_bench_attention_says_why_a_backend_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(call: AttentionCall) -> AttentionResult:
        raise RuntimeError("no compiler\nand a long story")

    monkeypatch.setitem(BACKENDS, "broken", Backend(name="broken", attend=broken))
    rows = rows_of(problem(), ["broken", "torch"], [])
    assert rows["broken"]["reason"] == "cannot run: no compiler"
    assert "seconds" in rows["torch"]


def test_bench_attention_says_why_a_peer_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(case: AttentionProblem) -> None:
        raise UnavailableError("not installed: pip install it")

    monkeypatch.setitem(attention.PEERS, "absent", absent)
    assert rows_of(problem(), ["torch"], ["absent"])["absent"]["reason"] == (
        "not installed: pip install it"
    )


@pytest.mark.parametrize("cold", [False, True])
def test_bench_attention_says_if_its_calls_were_cold(cold: bool) -> None:
    report = bench_attention(problem(), backends=["torch"], peers=[], repeats=1, cold=cold)
    assert report["cold"] is cold and "seconds" in report["rows"][0]


def test_bench_attention_returns_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BACKENDS, "nan", NAN)
    report = bench_attention(problem(), backends=["dgl", "torch", "nan"], peers=[], repeats=1)
    found = json.loads(json.dumps(report))
    assert found["problem"]["topology"] == "causal" and found["problem"]["dtype"] == "float64"
    rows = {row["name"]: row for row in found["rows"]}
    dgl, torch_ = rows["dgl"], rows["torch"]
    assert [*dgl["seconds"]] == ["lower", "median", "upper"]
    ratio = dgl["seconds"]["median"] / torch_["seconds"]["median"]
    assert torch_["times_faster_than"] == {"dgl": pytest.approx(ratio)}
    assert torch_["share_of_matmul"] == pytest.approx(
        torch_["flops_per_second"] / found["matmul_flops_per_second"]
    )
    assert rows["nan"] == {
        "name": "nan", "backend": True, "error": None, "reason": "wrong: not a number",
    }  # fmt: skip


def test_best_backend_is_never_a_peer() -> None:
    rows = [
        {"name": name, "backend": backend, "seconds": {"median": median}}
        for name, backend, median in [("dgl", True, 3), ("torch", True, 2), ("padded", False, 1)]
    ]
    assert best_backend(rows) == "torch"
    assert best_backend(rows[2:]) is None and best_backend([]) is None


@pytest.mark.gpu
def test_bench_attention_on_a_gpu() -> None:
    case = problem(device=torch.device("cuda"), dtype=torch.float32)
    report = bench_attention(case, repeats=2)
    assert report["best"] is not None
    assert all(row["peak_bytes"] is not None for row in report["rows"] if "seconds" in row)


def test_matrix_product_is_of_1024() -> None:
    product = matrix_product(torch.device("cpu"))()
    assert isinstance(product, torch.Tensor)
    assert product.shape == (1024, 1024) and product.dtype == torch.float32
