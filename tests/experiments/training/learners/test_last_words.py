from math import exp, inf

import pytest
import torch

from graphut.experiments.tasks import Text, Words
from graphut.experiments.training.learners.last_words import AgreementLearner, LambadaLearner
from graphut.experiments.training.learners.texts import TextScore
from tests.experiments.training.learners.small_models import make_language_model

AGREEMENT = AgreementLearner
LAMBADA = LambadaLearner
WORDS = Words(["<unk>", "care", "about", "signs", "he", "does"])
SINGULAR, PLURAL = 5, 6
VERBS = Words(["<unk>", "the", "keys", "VBZ", "VBP"])
VOCABULARIES = {"text": VERBS}


def scores_of(rows: list[tuple[int, float, float]]) -> list[TextScore]:
    """Return scores of texts of two tokens, from verbs and the logits of the two forms."""
    nats, correct = torch.ones(2).double(), torch.zeros(2, dtype=torch.bool)
    return [
        TextScore(Text([3, verb]), nats, correct, torch.tensor([2 * n, 2 * n + 1]), torch.tensor(x))
        for n, (verb, *x) in enumerate(rows)
    ]


@pytest.mark.parametrize(
    ("rows", "accuracy", "balanced"),
    [
        ([(SINGULAR, 2.0, 1.0), (SINGULAR, 1.0, 2.0), (PLURAL, 1.0, 2.0)], 2 / 3, 3 / 4),
        ([(SINGULAR, 1.0, 1.0), (PLURAL, 0.4, 0.5)], 1 / 2, 1 / 2),  # a tie is wrong
        ([(PLURAL, 0.0, 1.0)] * 9 + [(SINGULAR, 0.0, 1.0)], 0.9, 0.5),
        ([(PLURAL, 0.0, 1.0), (PLURAL, 1.0, 0.0)], 0.5, 0.5),
    ],
)
def test_agreement_metrics_count_verbs_whose_correct_form_is_likelier(
    rows: list[tuple[int, float, float]], accuracy: float, balanced: float
) -> None:
    metrics = AGREEMENT(make_language_model(), VOCABULARIES).metrics(scores_of(rows))
    assert metrics["accuracy"] == pytest.approx(accuracy)
    assert metrics["balanced_accuracy"] == pytest.approx(balanced)
    count = len(rows)
    assert (metrics["nats"], metrics["steps"], metrics["verb_steps"]) == (1.0, count - 0.5, count)


def test_agreement_answers_are_the_likelier_forms() -> None:
    model = make_language_model().eval()
    texts = [Text([3, 2] * 40 + [verb]) for verb in (SINGULAR, PLURAL)]
    answers = AGREEMENT(model, VOCABULARIES).answers(texts)
    assert [answer.correct for answer in answers] == ["VBZ", "VBP"]
    for text, answer in zip(texts, answers, strict=True):
        evaluation, _ = AGREEMENT(model, VOCABULARIES).evaluate_in_detail([text])
        assert answer.is_correct == (evaluation["accuracy"] == 1.0)
        assert answer.is_correct == (answer.text == answer.correct)
        assert str(answer).endswith(f"\nanswer  {answer.text}; correct: {answer.correct}")
        [part] = answer.parts
        assert part.names == VERBS.readable(text.tokens)  # all of them


def test_lambada_metrics_of_last_words_and_of_all_words() -> None:
    rows = (
        ([3, 4], [9.0, 1.0], [False, True], [5, 1]),
        ([3, 3, 5], [9.0, 9.0, 3.0], [False] * 3, [5, 5, 2]),
        ([4, 4, WORDS.unknown], [9.0, 9.0, 0.5], [False, False, True], [5, 5, 6]),
    )
    scores = [TextScore(Text(x), *map(torch.tensor, own), torch.zeros(0)) for x, *own in rows]
    metrics = LAMBADA(make_language_model(), {"text": WORDS}).metrics(scores)
    assert metrics == {
        "word_accuracy": pytest.approx(1 / 3),  # an unknown word is not guessed
        "word_nats": 2.0,
        "known": pytest.approx(2 / 3),
        "nats": pytest.approx(49.5 / 8),
        "steps": pytest.approx(34 / 8),
        "word_steps": 3.0,
    }
    assert LAMBADA.derived(metrics)["word_perplexity"] == pytest.approx(exp(2.0))
    diverged = LAMBADA.derived({"nats": 800.0, "word_nats": 1e4})
    assert diverged["word_perplexity"] == diverged["perplexity"] < inf


def test_lambada_answers_are_the_likeliest_last_words() -> None:
    model, passage = make_language_model().eval(), WORDS.read("he does care about")
    guess = int(model([[*passage, 3]], ends=False).logits[-1].argmax())
    texts = [Text([*passage, word]) for word in (guess, 2 + guess % 6)]
    right, wrong = LAMBADA(model, {"text": WORDS}).answers(texts)
    assert right.text == wrong.text == right.correct == WORDS.readable([guess])[0]
    assert wrong.correct != wrong.text
    assert right.is_correct and not wrong.is_correct
    assert right.parts[0].names == ["he", "does", "care", "about", right.text]
