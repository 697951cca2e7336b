from __future__ import annotations

from math import log
from pathlib import Path
from typing import Any

import pytest
import torch

from graphut.experiments.tasks import Passage
from graphut.experiments.training import NoOptions, Trainer, TrainingConfig, evaluate
from graphut.experiments.training.learners.passage_judgement import (
    Judgement,
    PassageEvaluation,
    judge,
    summarize,
)
from graphut.experiments.training.learners.passages import PassageLearner
from graphut.models import UniversalTransformerPointer, UniversalTransformerPointerConfig
from graphut.models.pointer import likeliest
from tests.experiments.training.learners.small_tasks import Repeated

LEARNER, TASK = PassageLearner(), Repeated()
BATCH = [Passage([2, 3, 2, 4], 2), Passage([5], 5), Passage([6, 7], 7)]


def make_model(**options: Any) -> UniversalTransformerPointer:
    torch.manual_seed(0)
    sizes = {"d_model": 16, "num_heads": 2, "d_hidden": 32, "max_steps": 3, **options}
    return UniversalTransformerPointer(
        UniversalTransformerPointerConfig(**LEARNER.sizes(TASK), **sizes)  # type: ignore[arg-type]
    )


def test_the_task_decides_the_sizes() -> None:
    assert LEARNER.sizes(TASK) == {"vocab_size": 10}
    assert set(LEARNER.sizes(TASK)) == set(LEARNER.from_task)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_an_outcome_is_the_formula(smoothing: float) -> None:
    model = make_model()
    losses, right = [], 0
    for context, answer in BATCH:
        output = model([context])
        share = sum(
            score.exp()
            for score, word in zip(output.scores, context, strict=True)
            if word == answer
        )
        assert isinstance(share, torch.Tensor)
        losses.append(-(1 - smoothing) * share.log() - smoothing * output.scores.mean())
        right += int(likeliest(output)[0]) == answer
    found = LEARNER.outcome(model, BATCH, smoothing)
    torch.testing.assert_close(found.prediction, torch.stack(losses).mean())
    assert (found.labels, int(found.right)) == (3, right)
    assert set(found.ponders) == {"encoder"}


def test_a_passage_without_its_answer_teaches_nothing() -> None:
    model = make_model()
    alone = LEARNER.outcome(model, BATCH, 0.0)
    more = LEARNER.outcome(model, [*BATCH, Passage([2, 3], 9)], 0.0)
    torch.testing.assert_close(more.prediction, alone.prediction)
    assert (more.labels, more.right) == (4, alone.right)
    found, expected = (
        torch.autograd.grad(outcome.prediction, [model.embedding.weight, model.question.weight])
        for outcome in (more, alone)
    )
    torch.testing.assert_close(found, expected)
    assert LEARNER.outcome(model, [Passage([2, 3], 9)], 0.0).prediction == 0


def test_judgements_are_what_the_model_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphut.experiments.training.learners.passage_judgement._BATCH", 2)
    model = make_model()
    passages = [*BATCH, Passage([2, 3, 4, 5, 6, 7], 9)]
    for judgement in judge(model, passages):
        [passage] = [p for p in passages if len(p.context) == len(judgement.steps)]
        [alone] = model.predict([passage.context])
        assert judgement.answerable == (passage.answer in passage.context)
        assert judgement.right == (alone.word == passage.answer)
        places = [i for i, word in enumerate(passage.context) if word == passage.answer]
        expected = sum(alone.probabilities[i] for i in places)
        assert judgement.probability == pytest.approx(expected, abs=1e-6)
        assert judgement.steps == alone.steps


def test_what_cannot_be_answered_is_wrong() -> None:
    found = summarize(
        [
            Judgement(True, True, 0.5, [2, 1, 3]),
            Judgement(True, False, 0.25, [4]),
            Judgement(False, False, 0.0, [1, 1]),
            Judgement(False, False, 0.0, [2]),
        ]
    )
    assert found == PassageEvaluation(
        accuracy=0.25,
        answerable_accuracy=0.5,
        log_probability=pytest.approx((log(0.5) + log(0.25)) / 2),
        answerable=0.5,
        steps=2.0,
        last_steps=2.5,
    )
    assert str(found) == (
        "25.00% of answers right, 50.00% of those that can be; "
        "mean steps 2.00 of a word, 2.50 of the last"
    )
    assert found.reached(0.5) and not found.reached(0.51)


def test_a_probability_of_nothing_and_no_answer_at_all() -> None:
    assert summarize([Judgement(True, False, 0.0, [1])]).log_probability < -20
    found = summarize([Judgement(False, False, 0.0, [1])])
    assert (found.answerable_accuracy, found.log_probability) == (0.0, 0.0)


def test_the_surer_one_of_two_equally_accurate_ones_is_the_better() -> None:
    first, second, third = (
        PassageEvaluation(accuracy, 0.9, likely, 1.0, 1.0, 1.0)
        for accuracy, likely in ((0.5, -0.1), (0.5, -0.05), (0.6, -3.0))
    )
    assert first < second < third and not second < first
    assert PassageEvaluation.from_dict(first.to_dict()) == first


def test_no_passages() -> None:
    with pytest.raises(ValueError, match="there are no passages to evaluate on"):
        judge(make_model(), [])


def test_it_learns_and_says_what_it_has_learned(tmp_path: Path) -> None:
    config = TrainingConfig(epochs=80, batch_size=16, learning_rate=1e-2, warmup=20, patience=80)
    Trainer(make_model(), TASK, config, tmp_path, lambda line: None).fit()
    best = UniversalTransformerPointer.from_pretrained(tmp_path)
    found = evaluate(best, TASK, TASK.test)
    assert isinstance(found, PassageEvaluation)
    assert found.answerable == 0.75 and found.answerable_accuracy > 0.9
    assert found.accuracy == pytest.approx(0.75 * found.answerable_accuracy)
    [said] = LEARNER.generate(best, TASK.vocabularies, ["c a b h a"], NoOptions())
    assert said.answer == "a"
    asked, steps, answer = said.shown.splitlines()
    assert (asked.split(), steps.split()[0]) == (["input", *"cabha"], "steps")
    assert answer.startswith("answer  a (")
    shown = list(LEARNER.show(best, TASK))
    right = TASK.vocabulary.decode([passage.answer for passage in TASK.test[:3]])
    assert [block.rpartition("right: ")[2] for block in shown] == right
