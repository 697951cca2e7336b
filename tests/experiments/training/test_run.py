from __future__ import annotations

from pathlib import Path

import pytest
import torch

from graphut._files import read_json, write_json
from graphut.experiments.tasks import Copy, PairTask
from graphut.experiments.tasks.pairs import Pairs
from graphut.experiments.training import Run, TrainingConfig, is_run
from graphut.experiments.training.run import RUN
from graphut.models import UniversalTransformer, UniversalTransformerConfig


def create(folder: Path, task: PairTask) -> Run:
    sizes = {"d_model": 8, "num_heads": 2, "d_hidden": 8, "max_steps": 2}
    config = UniversalTransformerConfig(
        source_vocab=len(task.source_vocabulary),
        target_vocab=len(task.target_vocabulary),
        **sizes,  # type: ignore[arg-type]
    )
    return Run.create(folder, task, TrainingConfig(epochs=3), UniversalTransformer(config))


def write_pairs(path: Path, symbol: str) -> Pairs:
    path.write_text("".join(f"a {'b ' * number}\t{symbol} x\n" for number in range(1, 9)))
    return Pairs(path)


def test_run_open_reads_what_create_has_written(tmp_path: Path) -> None:
    task = Copy(mean_length=4)
    created = create(tmp_path / "run", task)
    assert is_run(tmp_path / "run") and not is_run(tmp_path)
    run = Run.open(tmp_path / "run")
    assert run == created
    assert run.task() == task
    assert run.training == TrainingConfig(epochs=3)
    assert run.vocabularies == task.vocabularies


def test_run_model_comes_back(tmp_path: Path) -> None:
    torch.manual_seed(0)
    run = create(tmp_path, Copy())
    first, second = run.model().state_dict(), run.model().state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_run_create_refuses_a_folder_with_a_run(tmp_path: Path) -> None:
    create(tmp_path, Copy())
    with pytest.raises(FileExistsError, match=r"there is a run in .* already"):
        create(tmp_path, Copy())


def test_run_task_finds_pairs_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_pairs(Path("pairs.tsv"), "y")
    create(Path("run"), Pairs("pairs.tsv"))
    monkeypatch.chdir("run")
    assert Run.open(".").task().vocabularies["target"].symbols == ("x", "y")


def test_run_task_refuses_pairs_that_have_changed(tmp_path: Path) -> None:
    create(tmp_path / "run", write_pairs(tmp_path / "pairs.tsv", "y"))
    lines = (tmp_path / "pairs.tsv").read_text().splitlines(keepends=True)
    (tmp_path / "pairs.tsv").write_text("".join([*lines[1:], lines[0]]))  # the same symbols
    with pytest.raises(ValueError, match=r"pairs\.tsv has changed since the run in .*run began"):
        Run.open(tmp_path / "run").task()
    write_pairs(tmp_path / "pairs.tsv", "z")
    run = Run.open(tmp_path / "run")
    assert run.vocabularies["target"].symbols == ("x", "y")
    with pytest.raises(ValueError, match=r"pairs\.tsv has changed"):
        run.task()


def test_run_task_refuses_a_folder_with_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = write_pairs(tmp_path / "pairs.tsv", "y")
    create(tmp_path / "run", task)
    [(name, path)] = task.unchecked_files.items()
    for files, words in (({}, f"{name} is gone"), ({name: path, "a": path}, "a is new")):
        monkeypatch.setattr(Pairs, "unchecked_files", files)
        with pytest.raises(ValueError, match=f"{words} since the run in .*run began"):
            Run.open(tmp_path / "run").task()


def test_run_task_refuses_pairs_that_are_gone(tmp_path: Path) -> None:
    create(tmp_path / "run", write_pairs(tmp_path / "pairs.tsv", "y"))
    (tmp_path / "pairs.tsv").unlink()
    with pytest.raises(FileNotFoundError, match=r"there is no .*pairs\.tsv any more, on which"):
        Run.open(tmp_path / "run").task()


def test_run_task_of_before_there_were_digests(tmp_path: Path) -> None:
    create(tmp_path / "run", write_pairs(tmp_path / "pairs.tsv", "y"))
    state = read_json(tmp_path / "run" / RUN)
    del state["digests"]
    write_json(tmp_path / "run" / RUN, state)
    write_pairs(tmp_path / "pairs.tsv", "z")
    with pytest.raises(ValueError, match=r"its data has changed since, or graphut has"):
        Run.open(tmp_path / "run").task()


def test_run_open_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no run in .*: it has no run\.json"):
        Run.open(tmp_path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("task", "fly"),
        ("task", None),
        ("task_options", {"wings": 2}),
        ("training", {"speed": 2}),
        ("training", None),
    ],
)
def test_run_open_refuses_a_foreign_description(tmp_path: Path, key: str, value: object) -> None:
    create(tmp_path, Copy())
    state = read_json(tmp_path / RUN)
    write_json(tmp_path / RUN, state | {key: value})
    with pytest.raises(ValueError, match=r"run\.json does not describe a run of this version"):
        Run.open(tmp_path)


@pytest.mark.parametrize(
    "names", [["../secret"], ["source", "/etc/x"], [3], {"a/b": 1}, 5, [""], [], ["source"]]
)
def test_run_open_refuses_vocabularies_outside_the_folder_and_too_few(
    tmp_path: Path, names: object
) -> None:
    create(tmp_path, Copy())
    write_json(tmp_path / RUN, read_json(tmp_path / RUN) | {"vocabularies": names})
    with pytest.raises(ValueError, match=r"run\.json does not describe a run of this version"):
        Run.open(tmp_path)


def test_run_open_refuses_another_version(tmp_path: Path) -> None:
    create(tmp_path, Copy())
    state = read_json(tmp_path / RUN)
    del state["vocabularies"]
    write_json(tmp_path / RUN, state)
    with pytest.raises(ValueError, match=r"a run of this version: KeyError\('vocabularies'\)"):
        Run.open(tmp_path)


def test_run_open_refuses_a_truncated_description(tmp_path: Path) -> None:
    create(tmp_path, Copy())
    path = tmp_path / RUN
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"run\.json is not a JSON file"):
        Run.open(tmp_path)
