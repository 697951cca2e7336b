from __future__ import annotations

from math import exp
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphut.experiments.tasks import Text, Words
from graphut.experiments.training.learners.lambada import LambadaLearner
from graphut.experiments.training.learners.texts import TextScores
from tests.experiments.training.learners.small_models import make_language_model

LEARNER = LambadaLearner()
WORDS = Words(["<unk>", "care", "about", "signs", "he", "does"])


def test_metrics_look_at_last_words_by_themselves() -> None:
    texts = [Text([3, 4]), Text([3, 3, 5]), Text([4, 4, WORDS.unknown])]
    scores = TextScores(
        texts=texts,
        text=torch.tensor([0, 0, 1, 1, 1, 2, 2, 2]),
        nats=torch.tensor([9.0, 1.0, 9, 9, 3.0, 9, 9, 0.5]).double(),
        right=torch.tensor([0, 1, 0, 0, 0, 0, 0, 1]).bool(),
        steps=torch.tensor([5, 1, 5, 5, 2, 5, 5, 6]),
        candidates=torch.zeros(3, 0),
    )
    found = LEARNER.metrics(scores, WORDS)
    assert found["word_accuracy"] == pytest.approx(1 / 3)  # an unknown word is not guessed
    assert found["word_nats"] == 2.0 and found["known"] == pytest.approx(2 / 3)
    assert (found["steps"], found["word_steps"]) == (pytest.approx(34 / 8), 3.0)
    assert found["nats"] == pytest.approx(49.5 / 8)


def test_evaluation_order_and_text() -> None:
    found = LEARNER.evaluation(0.1, 5.0, 0.9, 6.0, 2.0, 3.0)
    assert LEARNER.evaluation(0.2, 5.1, 0.9, 5.0, 2.0, 3.0) < found
    assert found.score == 0.1
    assert str(found) == (
        f"10.00% of last words right, perplexity {exp(5):.1f} (of the 90.00% in the vocabulary); "
        f"perplexity of all words {exp(6):.1f}; mean steps 2.00, 3.00 before a last word"
    )


def test_show_yields_guesses_of_last_words() -> None:
    model, text = make_language_model().eval(), Text(WORDS.read("he does care about signs"))
    task: Any = SimpleNamespace(vocabulary=WORDS, test=[text])
    [said] = LEARNER.show(model, task)
    guess = int(model([text.tokens], ends=False).logits[-1].argmax())
    shown = WORDS.readable([guess]) if guess != 1 else ["<eos>"]
    lines = said.splitlines()
    assert lines[0].split() == ["text", "he", "does", "care", "about", *shown]
    assert len(lines[1].split()) == len(lines[0].split())
    assert lines[-1] == "right   signs"


def test_answer_is_the_likeliest_last_word() -> None:
    model, passage = make_language_model().eval(), WORDS.read("he does care about")
    task: Any = SimpleNamespace(vocabulary=WORDS)
    guess = int(model([[*passage, 3]], ends=False).logits[-1].argmax())
    right, wrong = (
        LEARNER.answer(model, task, Text([*passage, word])) for word in (guess, 2 + guess % 6)
    )
    assert right.answer == wrong.answer == right.right_answer == WORDS.readable([guess])[0]
    assert wrong.right_answer != wrong.answer
    assert right.is_right and not wrong.is_right
    assert right.parts[0].names == ["he", "does", "care", "about", right.answer]
