from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from graphut.attention import BACKENDS
from graphut.experiments.bench.options import AttentionOptions
from graphut.experiments.bench.peers import PEERS
from graphut.experiments.cli import main
from tests.helpers import read_rows

SIZES = ["--dim", "8", "--heads", "2", "--repeats", "1", "--device", "cpu"]
ATTENTION = ["bench", "attention", "--sentences", "2", "--lengths", "2-4", *SIZES]
TORCH = ["--backends", "torch", "--peers"]


def test_bench_attention_prints_a_table_and_appends_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "found.csv"
    options = ["--topology", "window:1", "--frontier", "0.5", *TORCH, "padded"]
    assert main([*ATTENTION, *options, "--results", str(out)]) == 0
    workload = "window:1, 2x2-4, 8 features, 50% active"
    text, said = capsys.readouterr()
    assert text.startswith(f"{workload}\ncontender ")
    assert said.splitlines() == [
        "comparing torch with a float64 reference",
        "comparing padded with a float64 reference",
        "timing torch, padded, matrix product",
        "round 1 of 1",
    ]
    assert main([*ATTENTION, *options, f"--results={out}"]) == 0
    rows = read_rows(out)
    assert [row["contender"] for row in rows] == ["torch", "padded", "matrix product"] * 2
    assert {(row["bench"], row["workload"]) for row in rows} == {("attention", workload)}
    assert {row["command"] for row in rows} == {" ".join(["graphut", *ATTENTION, *options])}
    assert all(row["threads"] and row["vectors"] and row["cpu"] for row in rows)


def test_bench_model_measures_every_combination(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "found.csv"
    argv = ["bench", "model", "--shape", "2x2-4", "--shape", "2x3", "--topology", "causal"]
    assert main([*argv, *SIZES, "--nobody-halts", "--results", str(out)]) == 0
    workloads = [
        f"causal, {shape}, 8 features, {halting}, {passes}"
        for shape in ("2x2-4", "2x3")
        for halting in ("schedule", "no halting")
        for passes in ("forward", "forward+backward")
    ]
    assert [row["workload"] for row in read_rows(out)] == [x for x in workloads for _ in range(2)]
    assert capsys.readouterr().out.count("x dense") == len(workloads)


def test_bench_options_know_all_names() -> None:
    hints = get_type_hints(AttentionOptions)
    backends, peers = (
        get_args(get_args(get_args(hints[name])[0])[0]) for name in ("backends", "peers")
    )
    assert {*backends, "dense"} == {*BACKENDS, "auto"} and [*peers] == [*PEERS]
