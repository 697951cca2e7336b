from __future__ import annotations

from math import exp
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphut.experiments.tasks import Text, Words
from graphut.experiments.training.learners.last_words import AgreementLearner, LambadaLearner
from graphut.experiments.training.learners.texts import TextScores, score_texts
from graphut.sentences import EOS
from tests.experiments.training.learners.small_models import make_language_model

AGREEMENT = AgreementLearner()
LAMBADA = LambadaLearner()
WORDS = Words(["<unk>", "care", "about", "signs", "he", "does"])
SINGULAR, PLURAL = 5, 6
VERBS = Words(["<unk>", "the", "keys", "VBZ", "VBP"])
VOCABULARIES = {"text": VERBS}


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


def test_agreement_metrics_count_verbs_whose_right_form_is_likelier() -> None:
    rows = [(SINGULAR, 2.0, 1.0), (SINGULAR, 1.0, 2.0), (PLURAL, 1.0, 2.0), (PLURAL, 0.5, 0.4)]
    found = AGREEMENT.metrics(scores_of([*rows, (SINGULAR, 1.0, 1.0)]), VERBS)
    assert found["accuracy"] == pytest.approx(2 / 5)  # a tie is wrong
    assert found["balanced_accuracy"] == pytest.approx((1 / 3 + 1 / 2) / 2)
    assert (found["nats"], found["steps"], found["verb_steps"]) == (1.0, 4.5, 5.0)


def test_agreement_metrics_of_always_the_same_answer_are_balanced_to_chance() -> None:
    rows = [(PLURAL, 0.0, 1.0)] * 9 + [(SINGULAR, 0.0, 1.0)]
    found = AGREEMENT.metrics(scores_of(rows), VERBS)
    assert found["accuracy"] == pytest.approx(0.9)
    assert found["balanced_accuracy"] == pytest.approx(0.5)


def test_agreement_metrics_of_one_form_alone() -> None:
    found = AGREEMENT.metrics(scores_of([(PLURAL, 0.0, 1.0), (PLURAL, 1.0, 0.0)]), VERBS)
    assert found["accuracy"] == found["balanced_accuracy"] == 0.5


def test_agreement_evaluate_in_detail_compares_forms_in_the_position_of_the_verb() -> None:
    model = make_language_model().eval()
    texts = [Text([3, 2, verb], group=group) for verb in (SINGULAR, PLURAL) for group in ("a", "b")]
    logits = model([[3, 2, 2]], ends=False).logits[-1].tolist()
    evaluation, more = AGREEMENT.evaluate_in_detail(model, VOCABULARIES, texts)
    assert evaluation["accuracy"] == 0.5 and evaluation["balanced_accuracy"] == 0.5
    likelier = max((SINGULAR, PLURAL), key=lambda form: logits[form])
    [right] = [text for text in texts[::2] if text.tokens[-1] == likelier]
    assert AGREEMENT.evaluate(model, VOCABULARIES, [right])["accuracy"] == 1.0
    assert [row["group"] for row in more["by_group"]] == ["a", "b"]
    assert {row["accuracy"] for row in more["by_group"]} == {0.5}


def test_agreement_evaluation_order_and_text() -> None:
    found = AGREEMENT.evaluation(0.9, 0.8, 2.0, 3.0, 4.0)
    assert AGREEMENT.evaluation(0.8, 0.9, 1.0, 1.0, 1.0).rank < found.rank
    assert AGREEMENT.evaluation(0.9, 0.9, 2.1, 1.0, 1.0).rank < found.rank
    assert found.score == 0.9
    assert str(found) == (
        "90.00% of verbs right (80.00% balanced); mean steps 3.00, 4.00 before a verb"
    )


def test_agreement_show_yields_sentences_and_the_share_of_the_right_form() -> None:
    model = make_language_model().eval()
    texts = [Text(VERBS.read("the keys VBP")), Text(VERBS.read("the VBZ"))]
    task: Any = SimpleNamespace(vocabulary=VERBS, test=texts)
    first, second = AGREEMENT.show(model, task)
    logits = score_texts(model, texts[:1], (SINGULAR, PLURAL)).candidates[0]
    share = float(logits.softmax(0)[1])
    assert first.splitlines()[-1] == f"right   {share:.1%} for VBP, against the other form"
    assert first.split()[:4] == ["text", "the", "keys", "VBP"]
    assert second.endswith("for VBZ, against the other form")


def test_agreement_answer_is_the_likelier_form() -> None:
    model = make_language_model().eval()
    task: Any = SimpleNamespace(vocabulary=VERBS)
    texts = [Text([3, 2] * 40 + [verb]) for verb in (SINGULAR, PLURAL)]
    found = [AGREEMENT.answer(model, task, text) for text in texts]
    assert [answer.right_answer for answer in found] == ["VBZ", "VBP"]
    for text, answer in zip(texts, found, strict=True):
        evaluation, _ = AGREEMENT.evaluate_in_detail(model, VOCABULARIES, [text])
        assert answer.is_right == (evaluation["accuracy"] == 1.0)
        assert answer.is_right == (answer.answer == answer.right_answer)
        [part] = answer.parts
        assert part.names == VERBS.readable(text.tokens)  # all of them


def test_lambada_metrics_look_at_last_words_by_themselves() -> None:
    texts = [Text([3, 4]), Text([3, 3, 5]), Text([4, 4, WORDS.unknown])]
    scores = TextScores(
        texts=texts,
        text=torch.tensor([0, 0, 1, 1, 1, 2, 2, 2]),
        nats=torch.tensor([9.0, 1.0, 9, 9, 3.0, 9, 9, 0.5]).double(),
        right=torch.tensor([0, 1, 0, 0, 0, 0, 0, 1]).bool(),
        steps=torch.tensor([5, 1, 5, 5, 2, 5, 5, 6]),
        candidates=torch.zeros(3, 0),
    )
    found = LAMBADA.metrics(scores, WORDS)
    assert found["word_accuracy"] == pytest.approx(1 / 3)  # an unknown word is not guessed
    assert found["word_nats"] == 2.0 and found["known"] == pytest.approx(2 / 3)
    assert (found["steps"], found["word_steps"]) == (pytest.approx(34 / 8), 3.0)
    assert found["nats"] == pytest.approx(49.5 / 8)


def test_lambada_evaluation_order_and_text() -> None:
    found = LAMBADA.evaluation(0.1, 5.0, 0.9, 6.0, 2.0, 3.0)
    assert LAMBADA.evaluation(0.2, 5.1, 0.9, 5.0, 2.0, 3.0).rank < found.rank
    assert found.score == 0.1
    assert str(found) == (
        f"10.00% of last words right, perplexity {exp(5):.1f} (of the 90.00% in the vocabulary); "
        f"perplexity of all words {exp(6):.1f}; mean steps 2.00, 3.00 before a last word"
    )


@pytest.mark.parametrize("ends", [False, True])
@torch.no_grad()
def test_lambada_show_yields_guesses_of_last_words(ends: bool) -> None:
    model, text = make_language_model().eval(), Text(WORDS.read("he does care about signs"))
    model.output.bias[EOS] = 100 if ends else -100
    task: Any = SimpleNamespace(vocabulary=WORDS, test=[text])
    [said] = LAMBADA.show(model, task)
    guess = int(model([text.tokens], ends=False).logits[-1].argmax())
    lines = said.splitlines()
    assert lines[0].split() == ["text", "he", "does", "care", "about", *WORDS.readable([guess])]
    assert len(lines[1].split()) == len(lines[0].split())
    assert lines[-1] == "right   signs"


def test_lambada_answer_is_the_likeliest_last_word() -> None:
    model, passage = make_language_model().eval(), WORDS.read("he does care about")
    task: Any = SimpleNamespace(vocabulary=WORDS)
    guess = int(model([[*passage, 3]], ends=False).logits[-1].argmax())
    right, wrong = (
        LAMBADA.answer(model, task, Text([*passage, word])) for word in (guess, 2 + guess % 6)
    )
    assert right.answer == wrong.answer == right.right_answer == WORDS.readable([guess])[0]
    assert wrong.right_answer != wrong.answer
    assert right.is_right and not wrong.is_right
    assert right.parts[0].names == ["he", "does", "care", "about", right.answer]
