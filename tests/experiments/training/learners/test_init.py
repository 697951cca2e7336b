from collections.abc import Mapping
from dataclasses import fields
from itertools import chain
from typing import Any

import pytest

from graphut.experiments.tasks import TASKS, Copy, Graphs, Task, Vocabulary
from graphut.experiments.tasks.graph_problems import GraphDistance
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

    monkeypatch.setitem(LEARNERS, Backwards, BackwardsLearner)
    assert learner_of(Backwards) is BackwardsLearner is not learner_of(Copy)


def test_learner_of_refuses_a_task_without_a_known_base() -> None:
    class Nothing(Task):
        @property
        def vocabularies(self) -> Mapping[str, Vocabulary]:
            return {}

    with pytest.raises(TypeError, match="Nothing has no learner: derive it from"):
        learner_of(Nothing)


@pytest.mark.parametrize("learner", LEARNERS.values())
def test_class_variables_of_learners_name_existing_fields(learner: Any) -> None:
    config = {field.name for field in fields(learner.task_kind.config_kind)}
    assert set(learner.task_kind.from_data) <= config
    choices = learner.task_kind.choices
    if isinstance(choices, property):  # of tasks on graphs
        tasks = Graphs("x"), Graphs("x", target="values"), GraphDistance()
        found = (task.choices for task in tasks if learner_of(task) is learner)
        choices = {*chain.from_iterable(found)}
    assert {*choices} <= learner.metric_meanings.keys()
