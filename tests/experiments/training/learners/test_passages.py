from functools import partial
from math import log

import pytest
import torch

from graphut.experiments.tasks import Passage
from graphut.experiments.training import Evaluation
from graphut.experiments.training.learners.passages import PassageLearner
from graphut.models.outputs import PointerPrediction
from graphut.models.pointer import likeliest
from tests.experiments.training.learners.small_models import small_model
from tests.experiments.training.learners.small_tasks import Repeated

LEARNER, TASK = PassageLearner, Repeated()
BATCH = [Passage([2, 3, 2, 4], 2), Passage([5], 5), Passage([6, 7], 7)]
make_model = partial(small_model, LEARNER, TASK)


def summary(*answers: tuple[Passage, float, int, list[int]]) -> Evaluation:
    """Return the metrics of the probability of the first word, the answer and the steps."""
    answered = []
    for passage, likely, word, steps in answers:
        shares = [likely, *[0.0] * (len(passage.context) - 1)]
        answered.append((passage, PointerPrediction(word, 0.0, shares, steps)))
    return LEARNER.evaluation(**LEARNER.metrics(answered))


def test_passages_cannot_be_read_from_a_file() -> None:
    with pytest.raises(ValueError, match=r"own\.txt: passages cannot be read from a file"):
        LEARNER(make_model(), {}).read("own.txt", TASK)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_outcome_equals_the_formula(smoothing: float) -> None:
    model = make_model()
    losses, right = [], 0
    for context, answer in BATCH:
        output = model([context])
        share = output.scores[torch.tensor(context) == answer].exp().sum()
        losses.append(-(1 - smoothing) * share.log() - smoothing * output.scores.mean())
        right += int(likeliest(output)[0]) == answer
    outcome = LEARNER(model, {}).outcome(BATCH, smoothing)
    torch.testing.assert_close(outcome.loss, torch.stack(losses).mean())
    assert (outcome.labels, int(outcome.correct)) == (3, right)
    assert set(outcome.ponders) == {"encoder"}


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_outcome_ignores_a_passage_without_its_answer(smoothing: float) -> None:
    model = make_model()
    alone = LEARNER(model, {}).outcome(BATCH, smoothing)
    more = LEARNER(model, {}).outcome([*BATCH, Passage([2, 3], 9)], smoothing)
    torch.testing.assert_close(more.loss, alone.loss)
    assert (more.labels, more.correct) == (4, alone.correct)
    found, expected = (
        torch.autograd.grad(outcome.loss, [model.embedding.weight, model.question.weight])
        for outcome in (more, alone)
    )
    torch.testing.assert_close(found, expected)
    assert LEARNER(model, {}).outcome([Passage([2, 3], 9)], smoothing).loss == 0


def test_evaluation_and_answers_are_the_predictions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphut.experiments.training.learner._BATCH", 2)
    model = make_model()
    passages = [*BATCH, Passage([2, 3, 4, 5, 6, 7], 9)]
    predictions = [model.predict([passage.context])[0] for passage in passages]
    expected = LEARNER.metrics([*zip(passages, predictions, strict=True)])
    evaluation, _ = LEARNER(model, TASK.vocabularies).evaluate_in_detail(passages)
    assert evaluation.metrics == pytest.approx(expected, abs=1e-6)
    answers = LEARNER(model, TASK.vocabularies).answers(passages)
    for passage, answer, alone in zip(passages, answers, predictions, strict=True):
        assert answer.is_correct == (alone.word == passage.answer)
        assert TASK.vocabulary.encode([answer.text, answer.correct]) == [alone.word, passage.answer]
        [part] = answer.parts
        assert TASK.vocabulary.encode(part.names) == passage.context and part.reads == part.names
        assert part.steps == part.ponder.steps.tolist() == alone.steps
        assert part.ponder.attention is not None


def test_passage_metrics_count_unanswerable_passages_as_wrong() -> None:
    evaluation = summary(
        (Passage([2, 3, 4], 2), 0.5, 2, [2, 1, 3]),
        (Passage([2, 3], 2), 0.25, 3, [4]),
        (Passage([2, 3], 4), 0.5, 3, [1, 1]),
        (Passage([2], 4), 1.0, 2, [2]),
    )
    assert evaluation.metrics == {
        "accuracy": 0.25,
        "answerable_accuracy": 0.5,
        "log_probability": pytest.approx((log(0.5) + log(0.25)) / 2),
        "answerable": 0.5,
        "steps": 2.0,
        "last_steps": 2.5,
    }
    assert str(evaluation) == (
        "accuracy 25.00% (50.00% of the answerable), steps 2.00, last word 2.50"
    )
    assert evaluation.score == 0.5
    more = LEARNER.evaluation(**{**evaluation.metrics, "log_probability": -0.5})
    best = LEARNER.evaluation(**{**evaluation.metrics, "accuracy": 0.3})
    assert evaluation.rank < more.rank < best.rank


def test_passage_metrics_of_probability_zero_and_of_no_answer() -> None:
    assert summary((Passage([2, 3], 2), 0.0, 3, [1]))["log_probability"] < -20
    evaluation = summary((Passage([2, 3], 4), 0.5, 3, [1]))
    assert (evaluation["answerable_accuracy"], evaluation["log_probability"]) == (0.0, 0.0)


def test_generate_reads_words_or_letters() -> None:
    spaced, dense = LEARNER(make_model(), TASK.vocabularies).generate(["c a b h a", "cabha"])
    assert str(spaced) == str(dense)
    asked, steps, *_, answer = str(spaced).splitlines()
    assert asked.split() == ["input", *"cabha"]
    assert steps.replace("+", "").split() == ["steps", *map(str, spaced.parts[0].steps)]
    assert answer.startswith(f"answer  {spaced.text} (")
