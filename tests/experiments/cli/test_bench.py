from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from graphut.attention import BACKENDS, autotune
from graphut.attention.backend import AttentionResult
from graphut.experiments.bench.scaling import NODES
from graphut.experiments.bench.workloads import Sizes
from graphut.experiments.cli import main
from graphut.experiments.cli.bench import bench_parser
from graphut.topology import Causal, Complete, Window

SMALL = ["--sentences", "2", "--lengths", "2-4", "--dim", "8", "--heads", "2", "--repeats", "1"]
ATTENTION = ["bench", "attention", *SMALL, "--device", "cpu", "--backends", "torch", "--peers"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache folder of the test's own, and nothing read yet."""
    monkeypatch.setenv("GRAPHUT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(autotune, "_choices", None)
    return tmp_path / "cache"


def test_bench_attention_prints_a_table_and_writes_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "result.json"
    options = ["padded", "--topology", "window:1", "--frontier", "0.5", "--out", str(out)]
    assert main([*ATTENTION, *options]) == 0
    text = capsys.readouterr().out
    assert text.startswith("window:1 on 2x2-4 tokens, 50% of the rows active")
    result = json.loads(out.read_text())
    assert result["command"][:3] == ["graphut", "bench", "attention"]
    assert [row["name"] for row in result["rows"]] == ["torch", "padded"]
    assert result["machine"]["threads"] and result["problem"]["frontier"] == 0.5


def test_bench_says_on_stderr_what_it_is_doing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ATTENTION, "padded", "--repeats", "2"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "comparing torch with a float64 reference",
        "comparing padded with a float64 reference",
        "timing torch, padded, matrix product",
        "round 1 of 2",
        "round 2 of 2",
    ]
    argv = ["bench", "model", "--shape", "2x3", "--dim", "8", "--heads", "2", "--repeats", "1"]
    assert main([*argv, "--device", "cpu"]) == 0
    timing = ["timing dense, adaptive", "round 1 of 1"]
    assert capsys.readouterr().err.splitlines() == ["2x3, complete, 8 features", *timing, *timing]


def test_bench_attention_of_one_sentence_forward_only(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["bench", "attention", "--nodes", "5", "--dim", "8", "--repeats", "1", "--forward-only"]
    assert main([*argv, "--device", "cpu", "--backends", "torch", "--cold", "--peers"]) == 0
    said = capsys.readouterr().out
    assert "complete on 1x5 tokens: 25 edges" in said and "after other work on 64 MB" in said


def test_bench_layers_prints_a_table_and_writes_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch_geometric")
    out = tmp_path / "result.json"
    argv = ["bench", "layers", "--nodes", "30", "--edges", "90", "--dim", "8", "--heads", "2"]
    assert main([*argv, "--seeds", "3", "--power-law", "--repeats", "1", "--out", str(out)]) == 0
    assert capsys.readouterr().out.startswith("2 layer(s): ")
    assert json.loads(out.read_text())["problem"]["power_law"]


def test_bench_model_prints_a_table_and_writes_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "result.json"
    argv = ["bench", "model", "--shape", "2x2-4", "--shape", "2x3", "--topology", "causal"]
    argv += ["--dim", "8", "--heads", "2", "--repeats", "1", "--backend", "torch"]
    assert main([*argv, "--device", "cpu", "--out", str(out)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + 4
    rows = json.loads(out.read_text())["rows"]
    assert [(row["sizes"], row["pass"]) for row in rows] == [
        (sizes, what) for sizes in ("2x2-4", "2x3") for what in ("forward", "forward+backward")
    ]
    assert {(row["topology"], row["dim"], row["halting"]) for row in rows} == {
        ("causal", 8, "schedule")
    }


def test_bench_scaling_prints_a_table_and_writes_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "result.json"
    argv = ["bench", "scaling", "--nodes", "9", "30", "--topology", "window:2", "--dim", "8"]
    argv += ["--heads", "2", "--repeats", "1", "--backend", "torch", "--device", "cpu"]
    assert main([*argv, "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("window:2 on one sentence, 8 features in 2 heads; ")
    assert "log-log slope: time " in text
    assert [row["nodes"] for row in json.loads(out.read_text())["rows"]] == [9, 30]


def test_bench_attention_remembers_the_fastest(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*ATTENTION, "--remember"]) == 0
    assert str(cache) in capsys.readouterr().err
    content = json.loads((cache / "backends.json").read_text())
    assert content["backends"] == {"interval cpu float32 plain": "torch"}


def test_bench_attention_remembers_nothing_wrong(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    zeros = replace(BACKENDS["torch"], attend=lambda call: AttentionResult(0 * call.query))
    monkeypatch.setitem(BACKENDS, "torch", zeros)
    assert main([*ATTENTION, "--remember"]) == 2
    assert "no backend gave a right result" in capsys.readouterr().err
    assert not cache.exists()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["attention"], "give --nodes N, or --sentences N with --lengths LOW-HIGH"),
        (["attention", "--nodes", "3", "--sentences", "2"], "give --nodes N, or"),
        (["attention", "--nodes", "0"], "got 0-0"),
        (["attention", "--nodes", "3", "--frontier", "2"], "got 2.0"),
        (["attention", "--nodes", "3", "--dim", "7"], "7 features do not divide into 8 heads"),
        (["attention", "--nodes", "3", "--repeats", "0"], "--repeats must be at least 1, got 0"),
        (["attention", "--nodes", "3", "--out", "no/where/x"], "there is no such folder"),
        (["attention", "--nodes", "3", "--remember", "--forward-only"], "leave out"),
        (["model", "--shape", "2x3", "--heads", "3"], "do not divide into 3 heads"),
        (["scaling", "--nodes", "9"], "a slope takes two different numbers of nodes"),
        (["scaling", "--nodes", "9", "0"], "a sentence has at least 1 token, got nodes=[9, 0]"),
        (["scaling", "--heads", "7"], "64 features do not divide into 7 heads"),
    ],
)
def test_bench_refuses_in_one_line(
    argv: list[str], message: str, refusal: Callable[..., str]
) -> None:
    assert message in refusal("bench", *argv, "--device", "cpu")


def parsed(line: str) -> Namespace:
    return bench_parser().parse_args(line.split())


def test_bench_parser_defaults() -> None:
    attention = parsed("attention")
    assert (attention.topology, attention.dim, attention.heads) == (Complete(), 128, 8)
    assert (attention.dtype, attention.fraction, attention.repeats) == ("float32", 1.0, 9)
    assert attention.backends is attention.peers is attention.out is None
    assert parsed("model").backend == "auto"
    scaling = parsed("scaling")
    assert (scaling.topology, scaling.nodes, scaling.dim) == (Window(16), NODES, 64)
    assert (scaling.backend, scaling.repeats) == ("auto", 5)
    assert (parsed("processes").sizes, parsed("processes").processes) == (Sizes(64, 10, 60), 2)


def test_bench_parser_values() -> None:
    arguments = parsed("attention --topology causal --lengths 10-60 --peers --backends torch dgl")
    assert arguments.topology == Causal() and arguments.lengths == (10, 60)
    assert arguments.peers == [] and arguments.backends == ["torch", "dgl"]
    arguments = parsed("model --shape 8x400 --shape 3x2-4")
    assert arguments.shape == [Sizes(8, 400, 400), Sizes(3, 2, 4)]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("", "the following arguments are required: WHAT"),
        ("fly", "argument WHAT: invalid choice: 'fly'"),
        ("attention --topology windw:3", "argument --topology: unknown topology 'windw'"),
        ("attention --topology window:x", "expected an integer, got 'x'"),
        ("attention --lengths 9-", "'9-' is no range of lengths"),
        ("attention --backends dense", "argument --backends: invalid choice: 'dense'"),
        ("attention --peers jax", "argument --peers: invalid choice: 'jax'"),
        ("attention --dtype int8", "argument --dtype: invalid choice: 'int8'"),
        ("model --shape 8y3", "argument --shape: '8y3' is no shape"),
        ("scaling --nodes many", "argument --nodes: invalid int value: 'many'"),
        ("model --backend fast", "argument --backend: invalid choice: 'fast'"),
    ],
)
def test_bench_parser_refuses_in_one_line(
    argv: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parsed(argv)
    assert ended.value.code == 2
    text = capsys.readouterr().err
    assert message in text and text.startswith("graphut: ") and text.count("\n") == 1
