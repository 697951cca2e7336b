from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphut.experiments.tasks import Text, Words
from graphut.experiments.training.learners.agreement import AgreementLearner
from graphut.experiments.training.learners.texts import TextScores, score_texts
from tests.experiments.training.learners.small_models import make_language_model

LEARNER = AgreementLearner()
SINGULAR, PLURAL = 5, 6
WORDS = Words(["<unk>", "the", "keys", "VBZ", "VBP"])
VOCABULARIES = {"text": WORDS}


def scores_of(rows: list[tuple[int, float, float]]) -> TextScores:
    """Of texts of two tokens: the verb, and the logits of singular and plural."""
    count = len(rows)
    return TextScores(
        texts=[Text([3, verb]) for verb, *_ in rows],
        text=torch.arange(count).repeat_interleave(2),
        nats=torch.ones(2 * count).double(),
        right=torch.zeros(2 * count, dtype=torch.bool),
        steps=torch.arange(2 * count),
        candidates=torch.tensor([logits for _, *logits in rows]),
    )


def test_metrics_count_verbs_whose_right_form_is_likelier() -> None:
    rows = [(SINGULAR, 2.0, 1.0), (SINGULAR, 1.0, 2.0), (PLURAL, 1.0, 2.0), (PLURAL, 0.5, 0.4)]
    found = LEARNER.metrics(scores_of([*rows, (SINGULAR, 1.0, 1.0)]), WORDS)
    assert found["accuracy"] == pytest.approx(2 / 5)  # a tie is wrong
    assert found["balanced_accuracy"] == pytest.approx((1 / 3 + 1 / 2) / 2)
    assert (found["nats"], found["steps"], found["verb_steps"]) == (1.0, 4.5, 5.0)


def test_metrics_of_always_the_same_answer_are_balanced_to_chance() -> None:
    rows = [(PLURAL, 0.0, 1.0)] * 9 + [(SINGULAR, 0.0, 1.0)]
    found = LEARNER.metrics(scores_of(rows), WORDS)
    assert found["accuracy"] == pytest.approx(0.9)
    assert found["balanced_accuracy"] == pytest.approx(0.5)


def test_metrics_of_one_form_alone() -> None:
    found = LEARNER.metrics(scores_of([(PLURAL, 0.0, 1.0), (PLURAL, 1.0, 0.0)]), WORDS)
    assert found["accuracy"] == found["balanced_accuracy"] == 0.5


def test_evaluate_in_detail_compares_forms_in_the_position_of_the_verb() -> None:
    model = make_language_model().eval()
    texts = [Text([3, 2, verb], group=group) for verb in (SINGULAR, PLURAL) for group in ("a", "b")]
    logits = model([[3, 2, 2]], ends=False).logits[-1].tolist()
    evaluation, more = LEARNER.evaluate_in_detail(model, VOCABULARIES, texts)
    assert evaluation["accuracy"] == 0.5 and evaluation["balanced_accuracy"] == 0.5
    likelier = max((SINGULAR, PLURAL), key=lambda form: logits[form])
    [right] = [text for text in texts[::2] if text.tokens[-1] == likelier]
    assert LEARNER.evaluate(model, VOCABULARIES, [right])["accuracy"] == 1.0
    assert [row["group"] for row in more["by_group"]] == ["a", "b"]
    assert {row["accuracy"] for row in more["by_group"]} == {0.5}


def test_evaluation_order_and_text() -> None:
    found = LEARNER.evaluation(0.9, 0.8, 2.0, 3.0, 4.0)
    assert LEARNER.evaluation(0.8, 0.9, 1.0, 1.0, 1.0) < found
    assert LEARNER.evaluation(0.9, 0.9, 2.1, 1.0, 1.0) < found
    assert found.score == 0.9
    assert str(found) == (
        "90.00% of verbs right (80.00% balanced); mean steps 3.00, 4.00 before a verb"
    )


def test_show_yields_sentences_and_the_share_of_the_right_form() -> None:
    model = make_language_model().eval()
    texts = [Text(WORDS.read("the keys VBP")), Text(WORDS.read("the VBZ"))]
    task: Any = SimpleNamespace(vocabulary=WORDS, test=texts)
    first, second = LEARNER.show(model, task)
    logits = score_texts(model, texts[:1], (SINGULAR, PLURAL)).candidates[0]
    share = float(logits.softmax(0)[1])
    assert first.splitlines()[-1] == f"right   {share:.1%} for VBP, against the other form"
    assert first.split()[:4] == ["text", "the", "keys", "VBP"]
    assert second.endswith("for VBZ, against the other form")


def test_answer_is_the_likelier_form() -> None:
    model = make_language_model().eval()
    task: Any = SimpleNamespace(vocabulary=WORDS)
    texts = [Text([3, 2] * 40 + [verb]) for verb in (SINGULAR, PLURAL)]
    found = [LEARNER.answer(model, task, text) for text in texts]
    assert [answer.right_answer for answer in found] == ["VBZ", "VBP"]
    for text, answer in zip(texts, found, strict=True):
        evaluation, _ = LEARNER.evaluate_in_detail(model, VOCABULARIES, [text])
        assert answer.is_right == (evaluation["accuracy"] == 1.0)
        assert answer.is_right == (answer.answer == answer.right_answer)
        [part] = answer.parts
        assert part.names == WORDS.readable(text.tokens)  # all of them
