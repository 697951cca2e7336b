from functools import partial
from pathlib import Path
from statistics import mean

import pytest
import torch

from graphut.experiments.tasks import Question
from graphut.experiments.training import Evaluation
from graphut.experiments.training.learners.questions import Answered, QuestionLearner
from graphut.models.outputs import ClassifierPrediction
from tests.experiments.training.learners.small_models import small_model
from tests.experiments.training.learners.small_tasks import PLACES, Whereabouts

LEARNER, TASK = QuestionLearner, Whereabouts()


def answered(
    group: str, supporting: int, correct: bool, likely: float, steps: list[int]
) -> Answered:
    question = Question([], [], 0, tuple(range(supporting)), group)
    return question, ClassifierPrediction(int(not correct), [likely], steps)


ANSWERED = [
    answered("qa1", 1, True, -0.5, [2, 1, 3]),
    answered("qa1", 2, False, -2.0, [4]),
    answered("qa2", 2, True, -0.1, [1, 1]),
]
make_model = partial(small_model, LEARNER, TASK)


def summary(found: list[Answered]) -> Evaluation:
    return LEARNER.evaluation(**LEARNER.metrics(found))


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_outcome_with_a_loss_at_every_step_equals_the_formula(smoothing: float) -> None:
    model, plain, batch = make_model(step_loss_weight=0.5), make_model(), TASK.test[:7]
    outcome = LEARNER(model, {}).outcome(batch, smoothing)
    output = model([LEARNER.inputs(q) for q in batch], get_steps=True)
    expected = LEARNER(plain, {}).outcome(batch, smoothing).loss
    steps = [own[-1] for own in output.steps.split(output.lengths.tolist())]
    assert output.answers is not None and len({*map(int, steps)}) > 1
    for answered, logits in output.answers:
        for number, row in zip(answered.tolist(), logits.log_softmax(-1), strict=True):
            likely = (1 - smoothing) * row[batch[number].answer] + smoothing * row.mean()
            expected = expected - 0.5 * likely / (7 * 3)
    assert sum(len(answered) for answered, _ in output.answers) == sum(map(int, steps))
    torch.testing.assert_close(outcome.loss, expected)


def test_question_metrics_have_the_mean_accuracy_of_groups() -> None:
    evaluation = summary(ANSWERED)
    assert evaluation.metrics == {
        "accuracy": 0.75,
        "log_probability": pytest.approx(-2.6 / 3),
        "groups": 2,
        "failed": 1,
        "steps": 2.0,
        "question_steps": pytest.approx(8 / 3),
    }
    assert str(evaluation) == (
        "error 25.00%, 1 of 2 tasks failed, steps 2.00 per sentence, 2.67 per question"
    )
    assert "failed" not in str(summary(ANSWERED[2:]))


@pytest.mark.parametrize(("wrong", "failed"), [(5, 0), (6, 1)])
def test_question_metrics_count_groups_with_over_five_percent_of_errors(
    wrong: int, failed: int
) -> None:
    found = [answered("qa1", 1, i >= wrong, -1.0, [1]) for i in range(100)]
    assert summary(found)["failed"] == failed


def test_evaluate_in_detail_is_by_group_and_by_supporting_facts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("graphut.experiments.training.learner._BATCH", 3)
    model = make_model()
    questions = [
        Question([TASK.test[0].facts[0]] * n, TASK.test[0].question, n % 3, tuple(range(n)), group)
        for n, group in ((4, "a"), (1, "a"), (2, "b"), (7, "b"), (0, "b"), (2, "a"))
    ]
    alone = [model.predict([LEARNER.inputs(question)])[0] for question in questions]
    pairs = [*zip(questions, alone, strict=True)]
    evaluation, more = LEARNER(model, TASK.vocabularies).evaluate_in_detail(questions)
    expected = LEARNER.metrics(pairs)
    assert evaluation.metrics == pytest.approx(expected, abs=1e-5)
    assert [row["group"] for row in more["by_group"]] == ["a", "b"]
    rows = more["by_supporting"]
    assert [(row["supporting"], row["questions"]) for row in rows] == [
        (0, 1), (1, 1), (2, 2), (4, 1), (7, 1),
    ]  # fmt: skip
    for row in rows:
        group = [(q, p) for q, p in pairs if len(q.facts) == row["supporting"]]
        assert row["error"] == mean(p.label != q.answer for q, p in group)
        assert row["steps"] == mean(n for _, p in group for n in p.steps)
        assert row["question_steps"] == mean(p.steps[-1] for _, p in group)


def test_answers_are_the_predictions() -> None:
    model = make_model()
    answers = LEARNER(model, TASK.vocabularies).answers(TASK.test)
    for question, answer in zip(TASK.test, answers, strict=True):
        [alone] = model.predict([LEARNER.inputs(question)])
        assert (answer.text, answer.correct) == (PLACES[alone.label], PLACES[question.answer])
        assert answer.is_correct == (alone.label == question.answer)
        assert str(answer).endswith(f"; correct: {answer.correct}")
        [part] = answer.parts
        assert part.names[2].startswith("where is ") and part.reads == part.names
        assert part.steps == part.ponder.steps.tolist() == alone.steps
        assert part.ponder.attention is not None
        assert part.ponder.attention.dense().shape[1:] == (2, 3, 3)
    assert {answer.is_correct for answer in answers} == {True, False}


class Forgetful(Whereabouts):
    longest_story = 1


def test_read_questions_keeps_the_last_facts_as_the_task_does(tmp_path: Path) -> None:
    path = tmp_path / "own.txt"
    path.write_text("1 John went garden.\n2 Mary went hall.\n3 Where is Mary?\thall\t1 2\n")
    learner = LEARNER(make_model(max_length=2), TASK.vocabularies)
    [question] = learner.read(str(path), Forgetful())
    assert [TASK.vocabulary.write(fact) for fact in question.facts] == ["mary went hall"]
    assert TASK.vocabulary.write(question.question) == "where is mary ?"
    assert (question.answer, question.supporting) == (1, (0,))
    path.write_text("1 Mary went hall.\n2 Where is Mary?\tattic\t1\n")
    with pytest.raises(ValueError, match=r"own\.txt: unknown symbol 'attic'"):
        learner.read(str(path), TASK)


@pytest.mark.parametrize(("facts", "words"), [(2, 3), (1, 99)])
def test_read_refuses_questions_that_are_too_long(tmp_path: Path, facts: int, words: int) -> None:
    path = tmp_path / "own.txt"
    fact = f"Mary{' went' * (words - 2)} hall."
    lines = [f"{number} {fact}\n" for number in range(1, facts + 1)]
    path.write_text("".join([*lines, f"{facts + 1} Where is Mary?\thall\t1\n"]))
    message = (
        rf"own\.txt: 'Where is Mary\?' has {facts + 1} sentences of at most {max(words, 4)} words, "
        r"but the model takes 2 sentences of at most"
    )
    with pytest.raises(ValueError, match=message):
        LEARNER(make_model(max_length=2), TASK.vocabularies).read(str(path), TASK)


def test_generate_lists_the_sentences_with_their_steps() -> None:
    texts = ["John went garden. Mary went hall. Where is Mary?"]
    [answer] = LEARNER(make_model(), TASK.vocabularies).generate(texts)
    [part] = answer.parts
    assert part.names == part.reads == ["John went garden.", "Mary went hall.", "Where is Mary?"]
    heading, *lines, note, last = str(answer).splitlines()
    assert heading == "steps" and last.startswith(f"answer  {answer.text} (")
    # Without training, the limit stops some sentences, which have a +.
    assert note == "+ stopped by the limit on the number of steps"
    assert any("+ " in line for line in lines)
    assert [line.replace("+ ", "  ").split(maxsplit=1) for line in lines] == [
        [str(steps), name] for steps, name in zip(part.steps, part.names, strict=True)
    ]
