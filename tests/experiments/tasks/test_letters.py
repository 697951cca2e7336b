from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from graphut.experiments.tasks import Copy, Reverse, Sort
from graphut.experiments.tasks.letters import LetterTask

TASKS = [Copy, Reverse, Sort]


@pytest.mark.parametrize("kind", TASKS)
def test_letter_tasks_answers(kind: type[LetterTask]) -> None:
    task = kind()
    letters = list("hello")
    answer = {"copy": "hello", "reverse": "olleh", "sort": "ehllo"}[task.name]
    tokens = task.answer(task.source_vocabulary.encode(letters))
    assert task.target_vocabulary.decode(tokens) == list(answer)


@pytest.mark.parametrize("kind", TASKS)
def test_letter_tasks_every_target_is_the_answer_to_its_source(kind: type[LetterTask]) -> None:
    task = kind(epoch_size=50, held_out=20)
    assert [len(part) for part in (task.train(0, 0), task.validation, task.test)] == [50, 20, 20]
    for source, target in task.train(0, 0) + task.validation + task.test:
        assert target == task.answer(source)
        assert min(source) >= 2 and max(source) < len(task.source_vocabulary)


@pytest.mark.parametrize("options", [{"short_share": 0.0}, {"fixed": True}])
def test_letter_tasks_lengths_are_those_of_the_tutorial(options: dict[str, Any]) -> None:
    lengths = np.array([len(source) for source, _ in Copy(**options).train(0, 0)])
    assert len(lengths) == 9000
    # Five standard errors; rounding adds 1/12 to the variance.
    assert abs(lengths.mean() - 15) < 5 * 3 / 9000**0.5
    assert abs(lengths.var() - (9 + 1 / 12)) < 5 * 9 * (2 / 9000) ** 0.5


def test_letter_tasks_a_share_of_the_training_sequences_is_short() -> None:
    task = Copy(short_share=0.5, epoch_size=20_000)
    lengths = np.array([len(source) for source, _ in task.train(0, 0)])
    counts = np.bincount(lengths)[1:5]  # the normal has next to none of these
    assert np.abs(counts - 10_000 / 15).max() < 5 * (10_000 / 15) ** 0.5
    assert lengths.min() == 1
    assert min(len(source) for source, _ in task.test) > 2


def test_letter_tasks_all_letters_are_equally_likely() -> None:
    tokens = np.concatenate([source for source, _ in Copy().train(1, 2)])
    counts = np.bincount(tokens, minlength=28)
    assert counts[:2].sum() == 0 and len(counts) == 28
    assert np.abs(counts[2:] - len(tokens) / 26).max() < 5 * (len(tokens) / 26) ** 0.5


def test_letter_tasks_no_sequence_is_empty() -> None:
    task = Sort(mean_length=0.1, length_deviation=2.0, held_out=200)
    assert min(len(source) for source, _ in task.test) == 1


def test_letter_tasks_training_pairs_depend_on_seed_and_epoch_alone() -> None:
    task = Sort(epoch_size=10)
    torch.manual_seed(1)
    first = task.train(3, 4)
    torch.manual_seed(2)
    assert task.train(3, 4) == first
    assert task.train(3, 5) != first
    assert task.train(4, 4) != first


def test_letter_tasks_fixed_training_pairs() -> None:
    task = Sort(epoch_size=10, fixed=True)
    assert task.train(3, 4) == task.train(3, 0)
    assert task.train(4, 0) != task.train(3, 0)


def test_letter_tasks_held_out_pairs_do_not_depend_on_the_training_draw() -> None:
    assert Sort(epoch_size=10, fixed=True).test == Sort().test
    assert Sort(epoch_size=10).validation == Sort().validation


def test_letter_tasks_held_out_pairs_are_not_trained_on() -> None:
    task = Sort()
    held_out = {tuple(source) for source, _ in task.validation + task.test}
    assert len(held_out) == 2000
    assert held_out.isdisjoint(tuple(source) for source, _ in task.train(0, 0))


@pytest.mark.parametrize(
    "options",
    [
        {"mean_length": 0.0},
        {"mean_length": float("inf")},
        {"length_deviation": float("inf")},
        {"length_deviation": -1.0},
        {"epoch_size": 0},
        {"held_out": -3},
        {"short_share": 1.5},
    ],
)
def test_letter_tasks_quotes_options_out_of_range(options: dict[str, Any]) -> None:
    ((name, value),) = options.items()
    with pytest.raises(ValueError, match=f"{name} must be .* got {value}"):
        Copy(**options)
