from __future__ import annotations

from dataclasses import fields
from itertools import chain
from typing import Any

import pytest

from graphut.experiments.tasks import TASKS, Copy, Task
from tests.experiments.tasks.tiny import GENERATED, tiny


def test_task_test_is_the_only_set_unless_a_task_says_otherwise() -> None:
    task = Copy(held_out=3)
    assert task.test_sets == {"test": task.test}


@pytest.mark.parametrize("name", GENERATED)
def test_task_the_first_set_is_called_test(name: str) -> None:
    task = tiny(name)
    assert next(iter(task.test_sets.items())) == ("test", task.test)


@pytest.mark.parametrize("name", GENERATED)
def test_task_all_tokens_are_symbols(name: str) -> None:
    task = tiny(name)
    sizes = {name: len(vocabulary) for name, vocabulary in task.vocabularies.items()}
    for source, target in all_pairs(task):
        assert source and min(source) >= 2 and max(source) < sizes["source"]
        assert target and min(target) >= 2 and max(target) < sizes["target"]


@pytest.mark.parametrize("name", GENERATED)
def test_task_pairs_depend_on_the_options_and_the_seed_alone(name: str) -> None:
    first, second = tiny(name), tiny(name)
    assert all_pairs(first) == all_pairs(second)
    assert len(first.train(1, 2)) == len(first.train(3, 4))


@pytest.mark.parametrize("name", [name for name in GENERATED if name != "listops"])
def test_task_every_seed_and_epoch_has_training_pairs_of_its_own(name: str) -> None:
    task = tiny(name)
    assert task.train(1, 2) != task.train(1, 3) != task.train(2, 3)


@pytest.mark.parametrize("name", GENERATED)
def test_task_numbers_out_of_range_are_quoted(name: str) -> None:
    kind: Any = TASKS[name]
    for field in fields(kind):
        if field.type == "int":
            with pytest.raises(ValueError, match=f"{field.name} must be .*got -1"):
                kind(**{field.name: -1})


def all_pairs(task: Task) -> list[Any]:
    tests = chain.from_iterable(task.test_sets.values())
    return [*task.train(5, 6), *task.validation, *tests]
