import re
from pathlib import Path

import pytest

from graphut.experiments.tasks import Pair
from graphut.experiments.tasks.scan import Scan, parse

SIZES = {"simple": (16728, 4182), "length": (16990, 3920), "jump": (14670, 7706)}


def texts(task: Scan, pairs: list[Pair]) -> list[tuple[str, str]]:
    return [
        (task.source_vocabulary.write(source), task.target_vocabulary.write(target))
        for source, target in pairs
    ]


@pytest.mark.parametrize("split", SIZES)
def test_scan_has_every_pair_of_the_files(split: str, scan_folder: Path) -> None:
    task = Scan(scan_folder, split=split)  # type: ignore[arg-type]
    train, validation = task.train(0, 0), task.validation
    assert (len(train) + len(validation), len(task.test)) == SIZES[split]
    assert len(validation) == 1000
    assert task.train(1, 1) == train
    lines = "\n".join(f"IN: {source} OUT: {target}" for source, target in texts(task, task.test))
    [path] = scan_folder.glob(f"*/tasks_test_*{split}.txt")
    assert lines + "\n" == path.read_text()
    sources = [{tuple(source) for source, _ in part} for part in (train, validation, task.test)]
    assert len(set().union(*sources)) == sum(map(len, sources))  # none is in two parts
    if split == "length":
        assert max(len(target) for _, target in train + validation) == 22
        assert {len(target) for _, target in task.test} <= set(range(24, 49))
    if split == "jump":
        assert {source for source, _ in texts(task, train) if "jump" in source} == {"jump"}
        assert all("jump" in source for source, _ in texts(task, task.test))


def test_scan_cut_off_moves_the_border_between_training_and_test(scan_folder: Path) -> None:
    task = Scan(scan_folder, split="length", cut_off=26)
    train, test = task.train(0, 0) + task.validation, task.test
    assert (len(train), len(test)) == (18286, 2624)
    assert max(len(target) for _, target in train) == 26
    assert min(len(target) for _, target in test) == 27
    published = Scan(scan_folder, split="length")
    sources = sorted(map(tuple, (source for source, _ in train + test)))
    every = published.train(0, 0) + published.validation + published.test
    assert sources == sorted(map(tuple, (source for source, _ in every)))


def test_scan_refuses_a_cut_off_without_a_test_set_or_another_split() -> None:
    with pytest.raises(ValueError, match="cut_off must be below 48, the longest output; got 48"):
        Scan("SCAN", split="length", cut_off=48)
    with pytest.raises(ValueError, match="cut_off must be 22 if split is not 'length'; got 26"):
        Scan("SCAN", cut_off=26)


@pytest.mark.parametrize("line", ["walk OUT I_WALK", "IN: fly OUT: I_FLY"])
def test_parse_quotes_a_wrong_line(line: str) -> None:
    with pytest.raises(ValueError, match=re.escape(line) if "fly" not in line else "'fly'"):
        parse(line)
