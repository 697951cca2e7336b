from dataclasses import MISSING, fields
from itertools import chain
from typing import Any, Literal, get_origin, get_type_hints

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphut.experiments.tasks import TASKS, PairTask, Task
from graphut.experiments.tasks.base import (
    DrawnTask,
    hold_out,
    random_windows,
    strided_windows,
)
from tests.helpers import refuses

KINDS: list[Any] = [kind for kind in TASKS.values() if issubclass(kind, PairTask)]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if issubclass(kind, DrawnTask)])
def test_task_pairs_depend_on_the_options_the_seed_and_the_epoch_alone(kind: Any) -> None:
    task, again = (kind(epoch_size=60, held_out=40) for _ in range(2))
    assert task.test_sets[0] == "test" and task.load("test") == task.test
    sizes = {name: len(vocabulary) for name, vocabulary in task.vocabularies.items()}
    for source, target in all_pairs(task):
        assert source and min(source) >= 2 and max(source) < sizes["source"]
        assert target and min(target) >= 2 and max(target) < sizes["target"]
    assert all_pairs(task) == all_pairs(again)
    assert len(task.train(1, 2)) == len(task.train(3, 4))
    assert task.train(1, 2) != task.train(1, 3) != task.train(2, 3)


@pytest.mark.parametrize("name", TASKS)
def test_task_options_out_of_range_are_quoted(name: str) -> None:
    kind: Any = TASKS[name]
    required = {field.name: "." for field in fields(kind) if field.default is MISSING}
    for field in fields(kind):
        hint = get_type_hints(kind)[field.name]
        if hint in (int, int | None):
            least = field.metadata["least"]
            assert least >= 0
            value, message = least - 1, f"at least {least}; got {least - 1}"
        elif get_origin(hint) is Literal:
            value, message = "x", "one of .*; got 'x'"
        else:
            continue
        refuses(f"{field.name} must be {message}", kind, **required, **{field.name: value})


def all_pairs(task: Task) -> list[Any]:
    tests = chain.from_iterable(map(task.load, task.test_sets))
    return [*task.train(5, 6), *task.validation, *tests]


WORDS = st.lists(st.text("ab", max_size=4), min_size=1, unique=True)


@given(WORDS, st.data())
def test_hold_out_loses_nothing_and_the_order_is_no_matter(
    words: list[str], data: st.DataObject
) -> None:
    count = data.draw(st.integers(0, len(words) - 1))
    rest, held_out = hold_out(words, count, str.encode)
    assert len(held_out) == count
    assert sorted(rest + held_out) == sorted(words)
    assert hold_out(words[::-1], count, str.encode) == (rest, held_out)


@given(st.integers(1, 60), st.integers(1, 20))
def test_strided_windows_count_every_token_once_after_half_a_window(size: int, length: int) -> None:
    counted = []
    for text in strided_windows(np.arange(size), length):
        start = text.tokens[0]
        assert text.tokens == list(range(start, start + len(text.tokens)))
        assert len(text.tokens) <= length
        for place in text.tokens[text.context :]:
            assert place - start >= min(place, length // 2)
            counted.append(place)
    assert counted == list(range(size))


def test_random_windows_are_drawn_from_everywhere_and_anew_in_each_epoch() -> None:
    epochs = [random_windows(np.arange(20), 5, 400, seed=0, epoch=epoch) for epoch in range(2)]
    assert epochs[0] != epochs[1]
    assert epochs[0] != random_windows(np.arange(20), 5, 400, seed=1, epoch=0)
    starts = [text.tokens[0] for text in epochs[0]]
    assert [starts.count(start) for start in range(16)] == pytest.approx([25] * 16, abs=15)
