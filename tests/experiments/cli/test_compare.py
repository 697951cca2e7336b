from collections.abc import Callable
from pathlib import Path

import pytest

from graphut._files import read_json
from graphut.experiments.cli import main
from graphut.experiments.cli.compare import Result, verdict
from graphut.experiments.training.run_files import METRICS
from tests.experiments.cli.tiny import TINY


def test_compare_trains_each_topology_and_goes_on_with_its_runs(
    tmp_path: Path, output: Callable[..., str]
) -> None:
    command = ["topology", "compare", "sort", "window:1|global:0", "complete"]
    command += ["--out", tmp_path, "--seeds", "2", "--plot", tmp_path / "plot.png", *TINY]
    found = output(*command)
    head, first, second, _, *last = found.splitlines()
    assert head.split("  ")[0] == "topology" and "FLOPs per example" in head
    for line, spec, name in (
        (first, "window:1|global:0", "window=1+global=0"),
        (second, "complete", "complete"),
    ):
        files = (tmp_path / f"{name}-{seed}" / "evaluation-test.json" for seed in (0, 1))
        accuracy = sum(read_json(file)["sequence_accuracy"] for file in files) / 2
        assert line.startswith(spec) and f"{accuracy:.2%} ± " in line
    assert last == ["No model has learned anything yet: train longer, with more --epochs."]
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    metrics = (tmp_path / "complete-1" / METRICS).read_bytes()
    assert output(*command) == found  # the runs have ended: they are only evaluated again
    assert (tmp_path / "complete-1" / METRICS).read_bytes() == metrics


def test_compare_refuses_runs_with_other_options(
    tmp_path: Path, output: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    command, options = ["topology", "compare", "sort"], ["--out", str(tmp_path), "--seeds", "1"]
    output(*command, "window:1", "complete", *options, *TINY)
    place = TINY.index("--d-model")
    options += [*TINY[:place], *TINY[place + 2 :]]
    assert main([*command, "window:1", "complete", "causal", *options]) == 2
    assert "causal-0 has another d_model than the runs before" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--seed=5", "--encoder-topology"])
def test_compare_refuses_options_that_differ_between_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    command = ["topology", "compare", "sort", "causal", "complete", "--out", str(tmp_path)]
    assert main([*command, option, "star"]) == 2
    assert f"{option} has another value in each run: leave it out" in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("metric", "scores", "lines"),
    [
        ("accuracy", {"a": [0.5, 0.7], "b": [0.6, 0.9], "c": [0.1, 0.59]}, [
            "b is better than c: in all of 2 seeds.",
            "b does not differ from a: the ranges of their 2 seeds overlap.",
        ]),
        ("bits", {"a": [2.0, 2.1], "b": [2.2, 2.3]}, ["a is better than b: in all of 2 seeds."]),
        ("bits", {"a": [2.0], "b": [3.0]}, [
            "One seed for each topology: a difference may be chance; give --seeds 3."
        ]),
    ],
)  # fmt: skip
def test_verdict_says_what_does_not_differ(
    metric: str, scores: dict[str, list[float]], lines: list[str]
) -> None:
    results = {spec: [Result(metric, x, 1.0, 1.0) for x in row] for spec, row in scores.items()}
    assert verdict(results, metric) == lines
