from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from graphut.experiments.cli import main
from graphut.experiments.training import Run
from tests.experiments.cli.tiny import TINY

ARGV = ("topology", "compare", "complete", "window:1|global:0", "--task", "sort", *TINY)


def test_compare_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ARGV]) == 0
    out, err = capsys.readouterr()
    title, _, head, *rows = out.splitlines()
    assert title == "encoder topologies on sort, at most 2 epochs, seed 0"
    assert head.startswith("encoder topology ")
    assert [row.split()[0] for row in rows] == ["complete", "window:1|global:0"]
    assert "window:1|global:0, seed 0: epoch 2: loss" in err


def test_compare_keeps_runs_figures_and_a_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "found"
    assert main([*ARGV, "--seeds", "1", "2", "--out", str(out)]) == 0
    found = json.loads((out / "comparison.json").read_text())
    assert [row["topology"] for row in found["rows"]] == ["complete", "window:1|global:0"]
    assert (out / "comparison.png").read_bytes().startswith(b"\x89PNG")
    run = Run.open(out / "2-seed-2")
    assert run.model().config.encoder_topology == "window:1|global:0"
    assert run.model().config.d_model == 8 and run.task().held_out == 4
    assert main([*ARGV, "--seeds", "1", "2", "--out", str(out)]) == 2
    assert "there is a run in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--encoder-topology", "star"], "--encoder-topology is what is compared"),
        (["--part", "decoder"], "decoder_topology must be causal"),
        (["--epochs", "0"], "epochs must be positive"),
    ],
)
def test_compare_refuses_bad_input(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*ARGV, *argv]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["complete"], "the following arguments are required: --task"),
        (["complete", "--task", "knit"], "argument --task: invalid choice: 'knit'"),
        (["--task", "sort"], "the following arguments are required: SPEC"),
        (["complete", "--task", "sort", "--seed", "3"], "unrecognized arguments: --seed"),
    ],
)
def test_add_compare_refuses_a_wrong_command_line(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["topology", "compare", *argv])
    assert message in capsys.readouterr().err


def test_compare_needs_matplotlib_before_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main([*ARGV, "--out", str(tmp_path / "found")]) == 2
    assert "pip install graphut[plot]" in capsys.readouterr().err
    assert not (tmp_path / "found").exists()
