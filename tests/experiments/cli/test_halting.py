from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from graphut._files import read_json
from graphut.experiments.cli import main
from graphut.experiments.results.run_record import RunRecord
from graphut.experiments.training import Run
from tests.experiments.cli.tiny import TINY

SMALL = shlex.split(
    "--epoch-size 8 --held-out 3 --sizes 3-6 --test-sizes 9 --test-nodes 18 --batch-size 8 "
    "--d-model 8 --num-heads 2 --d-hidden 8 --epochs 1 --device cpu"
)


def test_halting_compare_trains_each_way_and_prints_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ways = ["threshold", "act", "ponder_net", "gat"]
    argv = ["halting", "compare", "graph-distance", "--out", str(tmp_path), *SMALL, "--ways"]
    assert main([*argv, *ways, "--seeds", "1", "2", "2", "--test-max-steps", "20"]) == 0
    out = capsys.readouterr().out
    head, _, *rows = out.splitlines()
    assert head.startswith("| set | halting | answers right | graphs right | mean steps |")
    cells = [row.strip("| ").split(" | ") for row in rows]
    assert {tuple(own[:2]) for own in cells} == {
        (name, way) for name in ("test", "near-9") for way in ways
    }
    assert all(" ± " in own[2] for own in cells)
    judged = read_json(tmp_path / "act-seed2" / "evaluation-near-9.json")
    assert judged["options"] == {"max_steps": 20}
    rules = {way: Run.open(tmp_path / f"{way}-seed2").model().rule.spec() for way in ways}
    assert rules["act"] == "act" and rules["ponder_net"] == "ponder_net"
    assert rules["threshold"].startswith("fixed")
    assert main([*argv, "act", "act", "--seeds", "1"]) == 0  # the run is there already
    again = capsys.readouterr().out.splitlines()[2:]
    assert len(again) == 2 and all(row.split(" | ")[1] == "act" for row in again)
    assert "±" not in "".join(again)  # named twice, it is one run


def test_halting_compare_trains_with_other_options(tmp_path: Path) -> None:
    argv = ["halting", "compare", "graph-distance", "--out", str(tmp_path), *SMALL]
    assert main([*argv, "--ways", "act", "--max-steps", "3"]) == 0
    assert Run.open(tmp_path / "act-seed0").model().max_steps == 3


def test_halting_compare_refuses_tasks_without_graphs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["halting", "compare", "sort", "--out", str(tmp_path)]) == 2
    assert "sort is no task over graphs" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["halting", "compare", "graph-distance", "--ways", "oak", "--out", str(tmp_path)])
    assert "invalid choice: 'oak'" in capsys.readouterr().err


def test_halting_sweep_evaluates_one_model_under_each_rule(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(tmp_path / "run")
    assert main(["train", "graph-distance", "--out", run, *SMALL]) == 0
    rule = "convergence:tol=0.5"
    argv = ["halting", "sweep", run, "--max-steps", "20"]
    asked = ["--thresholds", "0.01", "1", "--rules", rule, "--depths", "3", "5"]
    capsys.readouterr()
    assert main([*argv, "--set", "near-9", *asked]) == 0
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    fixed = "fixed:halt_from=output"
    sure = [f"threshold:threshold={x},halt_from=output" for x in (0.01, 1.0)]
    assert [row[1:3] for row in rows] == [
        [sure[0], "20"], [sure[1], "20"], [rule, "20"], [fixed, "3"], [fixed, "5"],
    ]  # fmt: skip
    assert [row[5] for row in rows[:2]] == ["1.000", "20.000"]  # at once, and never before the cap
    assert [row[5] for row in rows[3:]] == ["3.000", "5.000"]
    # The same as an evaluation by this rule alone.
    kept = read_json(tmp_path / "run" / "sweep-near-9.json")
    options = ["--evaluation-rule", rule, "--max-steps", "20"]
    assert main(["eval", run, "--set", "near-9", *options]) == 0
    judged = read_json(tmp_path / "run" / "evaluation-near-9.json")
    assert {**judged, **kept["rows"][2]} == {**judged, "rule": rule, "max_steps": 20}
    assert [row["rule"] for row in RunRecord.of(run).sweeps["near-9"]] == [row[1] for row in rows]


def test_halting_sweep_refuses_what_a_run_does_not_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = {way: str(tmp_path / way) for way in ("fixed", "layers")}
    layers = ["--no-share-weights", "--max-steps", "2"]
    for way, others in {"fixed": [], "layers": layers}.items():
        argv = ["train", "graph-distance", "--preset", "fixed", "--out", runs[way], *SMALL]
        assert main([*argv, *others]) == 0
    capsys.readouterr()
    refusals = {
        (runs["fixed"],): "there is nothing to evaluate: give --rules or --depths",
        (runs["fixed"], "--thresholds", "0.5"): "halt by 'fixed', which has no threshold",
        (runs["fixed"], "--depths", "2", "--set", "far"): "has no test set 'far'",
        (runs["layers"], "--depths", "3"): "max_steps cannot become 3: 2 repetitions",
    }
    for argv, message in refusals.items():
        assert main(["halting", "sweep", *argv]) == 2
        assert message in capsys.readouterr().err
    assert main(["halting", "sweep", runs["fixed"], "--depths", "4", "--set", "test"]) == 0
    assert main(["train", "sort", "--out", str(tmp_path / "sort"), *TINY]) == 0
    assert main(["halting", "sweep", str(tmp_path / "sort")]) == 2
    assert "sort is no task over graphs" in capsys.readouterr().err
