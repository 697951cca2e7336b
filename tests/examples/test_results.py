import runpy
import shlex
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from graphut.experiments.cli.task_options import read_options
from tests.helpers import read_rows

pytest.importorskip("pandas")
RESULTS = Path(__file__).parents[2] / "examples" / "results"
PAGE = (RESULTS.parent / "RESULTS.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(RESULTS / "make_page.py"))


def test_page_is_what_the_script_writes(script: dict[str, Any]) -> None:
    assert script["render"]() == PAGE
    assert len(PAGE.encode()) <= 40_000
    files = [path for path in RESULTS.iterdir() if path.is_file() and path.name[0] != "."]
    assert len(files) <= 40 and sum(path.stat().st_size for path in files) <= 1_500_000


def test_page_shows_pictures_that_exist() -> None:
    shown = [part.split(")")[0] for part in PAGE.split("](results/")[1:]]
    assert len(shown) == 3 and all((RESULTS / name).is_file() for name in shown)


def test_cells_are_means_over_seeds(script: dict[str, Any]) -> None:
    found = [
        float(row["sequence_accuracy"])
        for row in read_rows(RESULTS / "runs.csv")
        if (row["task"], row["preset"], row["options"]) == ("algorithmic-addition", "small", "")
        and row["set"] == "exactly-400"
    ]
    assert len(found) == 5
    mean, deviation = (f"{x:.3f}".removeprefix("0") for x in (fmean(found), stdev(found)))
    assert f"| .999 / {mean} ± {deviation} |" in PAGE
    assert script["spread"]([0.5]) == ".500" and script["spread"]([0.5, 0.5]) == ".500"


def test_tables_have_each_evaluation_and_each_name_once() -> None:
    names = ("task", "preset", "options", "seed", "set", "eval_options")
    keys = [tuple(row[name] for name in names) for row in read_rows(RESULTS / "runs.csv")]
    assert len({*keys}) == len(keys) > 1000
    models = [row["model"] for row in read_rows(RESULTS / "models.csv")]
    assert len({*models}) == len(models)


def test_train_takes_the_options_of_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(RESULTS.parents[1])  # where the paths of tasks begin
    kinds = {
        (row["task"], row["preset"], row["options"]) for row in read_rows(RESULTS / "runs.csv")
    }
    one_of_each = {
        (task, preset, tuple(_flags(options))): options for task, preset, options in kinds
    }
    for (task, preset, _), options in one_of_each.items():
        argv = [task, "--preset", preset, *shlex.split(options), "--out", "RUN"]
        assert read_options("train", argv).preset == preset


def _flags(options: str) -> list[str]:
    return [word for word in shlex.split(options) if word.startswith("--")]
