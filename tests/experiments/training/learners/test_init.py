from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import pytest

from graphut.experiments.tasks import TASKS, Copy, Graphs, Task, Vocabulary
from graphut.experiments.training import TrainingConfig, learner_of
from graphut.experiments.training.learners.sequences import PairLearner
from graphut.experiments.training.learners.texts import TextLearner


@pytest.mark.parametrize("name", TASKS)
def test_fields_of_task_training_and_model_have_different_names(name: str) -> None:
    """All of them are options of `graphut train`."""
    kinds: list[Any] = [TASKS[name], TrainingConfig, TASKS[name].config_kind]
    names = [field.name for kind in kinds for field in fields(kind)]
    assert len(names) == len(set(names))


def test_learner_of_a_task_with_its_own() -> None:
    class Backwards(Copy):
        learner = TextLearner

    assert learner_of(Copy()) is learner_of(Copy) is PairLearner
    assert learner_of(Backwards) is TextLearner


def test_learner_of_refuses_a_task_without_one() -> None:
    class Nothing(Task):
        @property
        def vocabularies(self) -> Mapping[str, Vocabulary]:
            return {}

    with pytest.raises(TypeError, match="Nothing has no learner: derive it from"):
        learner_of(Nothing)


@pytest.mark.parametrize("task", [*TASKS.values(), Graphs("x"), Graphs("x", target="values")])
def test_class_variables_of_tasks_name_existing_fields_and_metrics(task: Any) -> None:
    assert set(task.from_data) <= {field.name for field in fields(task.config_kind)}
    if not isinstance(task.choices, property):
        assert {*task.choices} <= learner_of(task).metric_meanings.keys()
