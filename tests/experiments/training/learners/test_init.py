from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import pytest

from graphut.experiments.tasks import TASKS, Copy, Task, Vocabulary
from graphut.experiments.training import TrainingConfig, learner_of
from graphut.experiments.training.learners import LEARNERS
from graphut.experiments.training.learners.pairs import PairLearner


@pytest.mark.parametrize("name", TASKS)
def test_every_task_has_a_learner(name: str) -> None:
    learner = learner_of(TASKS[name])
    assert issubclass(TASKS[name], learner.task_kind)


@pytest.mark.parametrize("name", TASKS)
def test_no_field_has_the_name_of_another(name: str) -> None:
    """They are all options of one command."""
    kinds: list[Any] = [TASKS[name], TrainingConfig, learner_of(TASKS[name]).config_kind]
    names = [field.name for kind in kinds for field in fields(kind)]
    assert len(names) == len(set(names))


def test_a_task_and_its_class_have_the_same() -> None:
    assert learner_of(Copy()) is learner_of(Copy)
    assert isinstance(learner_of(Copy), PairLearner)


def test_the_nearest_kind_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    class Backwards(Copy):
        pass

    class BackwardsLearner(PairLearner):
        task_kind = Backwards

    own = BackwardsLearner()
    monkeypatch.setitem(LEARNERS, Backwards, own)
    assert learner_of(Backwards) is own and learner_of(Copy) is not own


def test_a_task_of_no_kind() -> None:
    class Nothing(Task):
        @property
        def vocabularies(self) -> Mapping[str, Vocabulary]:
            return {}

    with pytest.raises(TypeError, match="Nothing is no task that can be learned: derive it from"):
        learner_of(Nothing)


@pytest.mark.parametrize("learner", LEARNERS.values())
def test_what_a_learner_says_of_itself_is_there(learner: Any) -> None:
    config = {field.name for field in fields(learner.config_kind)}
    assert set(learner.from_task) <= config
    options = fields(learner.generation_kind)
    assert all(field.metadata["help"] for field in options)
    assert set(learner.evaluation_options) <= {field.name for field in options}
