from __future__ import annotations

import re
from pathlib import Path

import pytest

from graphut.experiments.tasks import Pair
from graphut.experiments.tasks.scan import Scan, parse

SIZES = {"simple": (16728, 4182), "length": (16990, 3920), "jump": (14670, 7706)}
SPLITS = pytest.mark.parametrize("split", SIZES)


def texts(task: Scan, pairs: list[Pair]) -> list[tuple[str, str]]:
    return [
        (task.source_vocabulary.write(source), task.target_vocabulary.write(target))
        for source, target in pairs
    ]


@SPLITS
def test_scan_has_every_pair_of_the_files(split: str, scan_folder: Path) -> None:
    task = Scan(scan_folder, split=split)  # type: ignore[arg-type]
    train, validation = task.train(0, 0), task.validation
    assert (len(train) + len(validation), len(task.test)) == SIZES[split]
    assert len(validation) == 1000
    assert task.train(1, 1) == train
    lines = "\n".join(f"IN: {source} OUT: {target}" for source, target in texts(task, task.test))
    [path] = scan_folder.glob(f"*/tasks_test_*{split}.txt")
    assert lines + "\n" == path.read_text()


@SPLITS
def test_scan_has_no_source_in_two_parts(split: str, scan_folder: Path) -> None:
    task = Scan(scan_folder, split=split)  # type: ignore[arg-type]
    train, validation, test = (
        {tuple(source) for source, _ in pairs}
        for pairs in (task.train(0, 0), task.validation, task.test)
    )
    assert train.isdisjoint(validation) and train.isdisjoint(test)
    assert validation.isdisjoint(test)


def test_scan_the_length_split(scan_folder: Path) -> None:
    task = Scan(scan_folder, split="length")
    assert max(len(target) for _, target in task.train(0, 0) + task.validation) == 22
    assert {len(target) for _, target in task.test} <= set(range(24, 49))


def test_scan_jump_is_trained_on_alone(scan_folder: Path) -> None:
    task = Scan(scan_folder, split="jump")
    sources = {source for source, _ in texts(task, task.train(0, 0)) if "jump" in source}
    assert sources == {"jump"}
    assert all("jump" in source for source, _ in texts(task, task.test))


@pytest.mark.parametrize("line", ["walk OUT I_WALK", "IN: fly OUT: I_FLY"])
def test_parse_quotes_a_wrong_line(line: str) -> None:
    with pytest.raises(ValueError, match=re.escape(line) if "fly" not in line else "'fly'"):
        parse(line)
