from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, make_dataclass
from typing import Any

import pytest

from graphut.experiments.tasks import TASKS, Copy, Task, Vocabulary
from graphut.experiments.training import TrainingConfig, learner_of
from graphut.experiments.training.learners import LEARNERS
from graphut.experiments.training.learners.pairs import PairLearner


@pytest.mark.parametrize("name", TASKS)
def test_fields_of_task_training_and_model_have_different_names(name: str) -> None:
    """All of them are options of `graphut train`."""
    kinds: list[Any] = [TASKS[name], TrainingConfig, TASKS[name].config_kind]
    names = [field.name for kind in kinds for field in fields(kind)]
    assert len(names) == len(set(names))


def test_learner_of_the_nearest_base(monkeypatch: pytest.MonkeyPatch) -> None:
    assert learner_of(Copy()) is learner_of(Copy)

    class Backwards(Copy):
        pass

    class BackwardsLearner(PairLearner):
        task_kind = Backwards

    own = BackwardsLearner()
    monkeypatch.setitem(LEARNERS, Backwards, own)
    assert learner_of(Backwards) is own and learner_of(Copy) is not own


def test_learner_of_refuses_a_task_without_a_known_base() -> None:
    class Nothing(Task):
        @property
        def vocabularies(self) -> Mapping[str, Vocabulary]:
            return {}

    with pytest.raises(TypeError, match="Nothing has no learner: derive it from"):
        learner_of(Nothing)


NoFields = make_dataclass("NoFields", ())


@pytest.mark.parametrize("learner", LEARNERS.values())
def test_class_variables_of_learners_name_existing_fields(learner: Any) -> None:
    config = {field.name for field in fields(learner.task_kind.config_kind)}
    assert set(learner.task_kind.from_data) <= config
    options = {field.name for field in fields(learner.generation_kind or NoFields)}
    assert set(learner.evaluation_options) <= options
