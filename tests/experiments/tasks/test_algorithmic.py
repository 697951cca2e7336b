from itertools import chain

import numpy as np
import pytest

from graphut.experiments.tasks import Copy, Pair, Reverse, Sort
from graphut.experiments.tasks.algorithmic import (
    AlgorithmicAddition,
    AlgorithmicCopy,
    AlgorithmicReverse,
    AlgorithmicTask,
    LetterTask,
)


def texts(task: AlgorithmicTask, pairs: list[Pair]) -> list[tuple[str, str]]:
    source, target = task.source_vocabulary, task.target_vocabulary
    return [("".join(source.decode(s)), "".join(target.decode(t))) for s, t in pairs]


def lengths(pairs: list[Pair]) -> set[int]:
    return {len(source) for source, _ in pairs}


def test_algorithmic_addition_sums() -> None:
    task = AlgorithmicAddition(held_out=200)
    for source, target in texts(task, [*chain.from_iterable(map(task.load, task.test_sets))]):
        first, second = source.split("+")
        # Lowest digit first, as in tensor2tensor.
        assert int(first[::-1]) + int(second[::-1]) == int(target[::-1])
        for number in (first, second, target):
            assert number == "0" or number[-1] != "0"


@pytest.mark.parametrize("kind", [AlgorithmicCopy, AlgorithmicReverse, AlgorithmicAddition])
def test_algorithmic_tasks_lengths_of_each_set(kind: type[AlgorithmicTask]) -> None:
    task = kind(train_length=7, test_length=30, held_out=400, epoch_size=300)
    least = 3 if kind is AlgorithmicAddition else 1
    assert task.test_sets == ["test", "up-to-30", "exactly-30"]
    for pairs in (task.train(0, 0), task.validation, task.test):
        assert lengths(pairs) == set(range(least, 8))
    assert lengths(task.load("up-to-30")) == set(range(least, 31))
    assert lengths(task.load("exactly-30")) == {30}


@pytest.mark.parametrize(("kind", "answer"), [(Copy, "hello"), (Reverse, "olleh"), (Sort, "ehllo")])
def test_letter_tasks_answer(kind: type[LetterTask], answer: str) -> None:
    task = kind(epoch_size=50, held_out=20)
    tokens = task.answer(task.source_vocabulary.encode("hello"))
    assert task.target_vocabulary.decode(tokens) == list(answer)
    assert [len(part) for part in (task.train(0, 0), task.validation, task.test)] == [50, 20, 20]
    held_out = {tuple(source) for source, _ in task.validation + task.test}
    assert held_out.isdisjoint(tuple(source) for source, _ in task.train(0, 0))
    for source, target in task.train(0, 0) + task.validation + task.test:
        assert target == task.answer(source)


def test_letter_tasks_have_the_lengths_of_the_tutorial_and_a_share_of_short_ones() -> None:
    lengths = np.array([len(source) for source, _ in Copy(short_share=0.0).train(0, 0)])
    # Five standard errors; rounding adds 1/12 to the variance.
    assert abs(lengths.mean() - 15) < 5 * 3 / 9000**0.5
    assert abs(lengths.var() - (9 + 1 / 12)) < 5 * 9 * (2 / 9000) ** 0.5
    task = Copy(short_share=0.5, epoch_size=20_000)
    counts = np.bincount([len(source) for source, _ in task.train(0, 0)])[1:5]
    assert np.abs(counts - 10_000 / 15).max() < 5 * (10_000 / 15) ** 0.5
    assert min(len(source) for source, _ in task.test) > 2
