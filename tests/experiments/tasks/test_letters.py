from typing import Any

import numpy as np
import pytest

from graphut.experiments.tasks import Copy, Reverse, Sort
from graphut.experiments.tasks.letters import LetterTask


@pytest.mark.parametrize(("kind", "answer"), [(Copy, "hello"), (Reverse, "olleh"), (Sort, "ehllo")])
def test_letter_tasks_answer(kind: type[LetterTask], answer: str) -> None:
    task = kind(epoch_size=50, held_out=20)
    tokens = task.answer(task.source_vocabulary.encode("hello"))
    assert task.target_vocabulary.decode(tokens) == list(answer)
    assert [len(part) for part in (task.train(0, 0), task.validation, task.test)] == [50, 20, 20]
    for source, target in task.train(0, 0) + task.validation + task.test:
        assert target == task.answer(source)


def test_letter_tasks_lengths_are_those_of_the_tutorial() -> None:
    lengths = np.array([len(source) for source, _ in Copy(short_share=0.0).train(0, 0)])
    assert len(lengths) == 9000
    # Five standard errors; rounding adds 1/12 to the variance.
    assert abs(lengths.mean() - 15) < 5 * 3 / 9000**0.5
    assert abs(lengths.var() - (9 + 1 / 12)) < 5 * 9 * (2 / 9000) ** 0.5


def test_letter_tasks_a_share_of_the_training_sequences_is_short() -> None:
    task = Copy(short_share=0.5, epoch_size=20_000)
    lengths = np.array([len(source) for source, _ in task.train(0, 0)])
    counts = np.bincount(lengths)[1:5]  # very rare in the normal distribution
    assert np.abs(counts - 10_000 / 15).max() < 5 * (10_000 / 15) ** 0.5
    assert lengths.min() == 1
    assert min(len(source) for source, _ in task.test) > 2


def test_letter_tasks_held_out_pairs_are_not_trained_on() -> None:
    task = Sort()
    held_out = {tuple(source) for source, _ in task.validation + task.test}
    assert len(held_out) == 2000
    assert held_out.isdisjoint(tuple(source) for source, _ in task.train(0, 0))
    assert Sort(epoch_size=10, short_share=0.0).test == task.test


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("mean_length", value) for value in (0.0, float("inf"))),
        *(("length_deviation", value) for value in (-1.0, float("inf"))),
        ("short_share", 1.5),
    ],
)
def test_letter_tasks_quote_options_out_of_range(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name} must be .* got {value}"):
        Copy(**{name: value})
