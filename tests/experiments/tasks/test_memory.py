from __future__ import annotations

import pytest

from graphut.experiments.tasks import LteCopy, LteDouble, LteReverse
from graphut.experiments.tasks.memory import MemoryTask


@pytest.mark.parametrize(
    ("kind", "answer"), [(LteCopy, "120"), (LteDouble, "120120"), (LteReverse, "021")]
)
def test_every_target_is_the_answer_to_its_source(kind: type[MemoryTask], answer: str) -> None:
    task = kind(held_out=20)
    assert task.answer("120") == answer
    vocabulary = task.source_vocabulary
    for source, target in task.test_sets["test"] + task.test_sets["hardest"]:
        text = "".join(vocabulary.decode(source))
        assert "".join(vocabulary.decode(target)) == task.answer(text)


@pytest.mark.parametrize("kind", [LteCopy, LteDouble, LteReverse])
def test_the_size_of_the_paper(kind: type[MemoryTask]) -> None:
    """Table 5 of arXiv 1807.03819."""
    task = kind(held_out=1)
    assert task.length == 55
    [(source, _)] = task.test_sets["hardest"]
    assert len(source) == 55
