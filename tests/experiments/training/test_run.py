from pathlib import Path
from typing import Any

import pytest
import torch

from graphut._files import read_json, write_json
from graphut.experiments.tasks import Copy, PairTask
from graphut.experiments.tasks.pairs import Pairs
from graphut.experiments.training import Run, TrainingConfig, is_run
from graphut.experiments.training.learners.sequences import PairLearner
from graphut.experiments.training.run_files import METRICS, RUN, append_metrics
from tests.experiments.training.learners.small_models import small_model
from tests.helpers import refuses


def create(folder: Path, task: PairTask) -> Run:
    return Run.create(folder, task, TrainingConfig(epochs=3), small_model(PairLearner, task))


def write_pairs(path: Path, symbol: str) -> Pairs:
    path.write_text("".join(f"a {'b ' * number}\t{symbol} x\n" for number in range(1, 9)))
    return Pairs(path)


def change(folder: Path, **fields: Any) -> None:
    """Change fields of `run.json`; remove a field that is None."""
    state = read_json(folder / RUN) | fields
    kept = {name: value for name, value in state.items() if value is not None}
    write_json(folder / RUN, kept)


def test_run_open_reads_what_create_has_written(tmp_path: Path) -> None:
    task = Copy(mean_length=4)
    created = create(tmp_path / "run", task)
    assert is_run(tmp_path / "run") and not is_run(tmp_path)
    run = Run.open(tmp_path / "run")
    assert run == created
    assert run.task() == task
    assert run.training == TrainingConfig(epochs=3)
    assert run.vocabularies == task.vocabularies
    first, second = run.model().state_dict(), run.model().state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    append_metrics(tmp_path / "run" / METRICS, {"update": 1})
    with pytest.raises(FileExistsError, match=r"there is a run in .*: --resume it"):
        create(tmp_path / "run", task)


def test_run_task_finds_pairs_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_pairs(Path("pairs.tsv"), "y")
    create(Path("run"), Pairs("pairs.tsv"))
    monkeypatch.chdir("run")
    assert Run.open(".").task().vocabularies["target"].symbols == ("x", "y")


def test_run_task_refuses_pairs_that_have_changed(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    create(tmp_path / "run", write_pairs(path, "y"))
    lines = path.read_text().splitlines(keepends=True)
    for changed in ("".join([*lines[1:], lines[0]]), "a\tz x\n"):  # the same symbols, and others
        path.write_text(changed)
        with pytest.raises(ValueError, match=r"pairs\.tsv has changed since the run in .*run beg"):
            Run.open(tmp_path / "run").task()
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"pairs\.tsv, the data of .*, does not exist"):
        Run.open(tmp_path / "run").task()
    assert Run.open(tmp_path / "run").vocabularies["target"].symbols == ("x", "y")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("task", "fly"),
        ("task_options", {"wings": 2}),
        ("training", {"speed": 2}),
        ("training", 5),
        ("imports", 5),
    ],
)
def test_run_open_refuses_a_foreign_description(tmp_path: Path, field: str, value: object) -> None:
    create(tmp_path, Copy())
    change(tmp_path, **{field: value})
    fault = ": unknown task 'fly'" if value == "fly" else " does not describe a run of this version"
    refuses(rf"run\.json{fault}", Run.open, tmp_path)
