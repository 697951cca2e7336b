from __future__ import annotations

from itertools import pairwise
from math import exp, log
from typing import Any

import pytest
import torch

from graphut.experiments.tasks import Text
from graphut.experiments.training.learners import text_judgement
from graphut.experiments.training.learners.text_judgement import (
    Scores,
    TextEvaluation,
    by_surprisal,
    score,
)
from graphut.models import UniversalTransformerLM, UniversalTransformerLMConfig

TEXTS = [
    Text([3, 2, 5, 4, 1], group="b"),
    Text([6], group="a"),
    Text([2, 2, 5, 3, 4, 6], 3, "a"),
    Text([5, 4, 4], 2),
]


def make_model(**options: Any) -> UniversalTransformerLM:
    torch.manual_seed(1)
    shape = {"vocab_size": 8, "d_model": 16, "num_heads": 2, "d_hidden": 16, "max_steps": 5}
    model = UniversalTransformerLM(UniversalTransformerLMConfig(**{**shape, **options})).double()
    for parameter in model.parameters():
        parameter.data += 0.5 * torch.randn_like(parameter)
    return model


def naive(model: UniversalTransformerLM, text: Text) -> list[tuple[float, bool, int]]:
    """Surprisal, whether it is likeliest, and steps, each token by a run of its own."""
    rows = []
    with torch.no_grad():
        for place in range(text.context, len(text.tokens)):
            output = model([text.tokens[: place + 1]], ends=False)
            share = output.logits[-1].softmax(0)
            token = text.tokens[place]
            likeliest = int(share.argmax()) == token
            rows.append((-log(float(share[token])), likeliest, int(output.steps[-1])))
    return rows


@pytest.mark.parametrize("most", [1, 12, 2**14])
def test_scores_are_those_of_each_token_alone(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_judgement, "_MOST_TOKENS", most)
    model = make_model()
    scores = score(model, TEXTS, [4, 7])
    assert model.training
    model.eval()
    assert scores.texts == sorted(TEXTS, key=lambda text: len(text.tokens))
    for number, text in enumerate(scores.texts):
        own = scores.text == number
        expected = naive(model, text)
        assert scores.nats[own].tolist() == pytest.approx([row[0] for row in expected], abs=1e-5)
        assert scores.right[own].tolist() == [row[1] for row in expected]
        assert scores.steps[own].tolist() == [row[2] for row in expected]
        logits = model([text.tokens], ends=False).logits[-1]
        assert scores.rivals[number].tolist() == pytest.approx(logits[[4, 7]].tolist(), abs=1e-5)
    assert scores.nats[scores.last].tolist() == [
        float(scores.nats[scores.text == number][-1]) for number in range(4)
    ]
    assert len(set(scores.steps.tolist())) > 1 and len(set(scores.right.tolist())) == 2


def test_an_evaluation_is_the_mean_over_tokens() -> None:
    model = make_model().eval()
    rows = [row for text in TEXTS for row in naive(model, text)]
    found = score(model, TEXTS).evaluation()
    for name, column in zip(("nats", "accuracy", "steps"), zip(*rows, strict=True), strict=True):
        assert getattr(found, name) == pytest.approx(sum(column) / len(rows), abs=1e-5)


def test_groups_are_scored_as_if_there_were_no_others() -> None:
    model = make_model()
    groups = score(model, TEXTS, [4]).by_group()
    assert list(groups) == ["a", "b"]
    for name, part in groups.items():
        alone = score(model, [text for text in TEXTS if text.group == name], [4])
        assert part.texts == alone.texts
        for column in ("text", "nats", "right", "steps", "rivals"):
            torch.testing.assert_close(getattr(part, column), getattr(alone, column))


def test_steps_by_surprisal() -> None:
    torch.manual_seed(0)
    nats, steps = torch.rand(1003).double(), torch.randint(1, 9, (1003,))
    whole = torch.zeros(1003, dtype=torch.int64)
    rows = by_surprisal(Scores([TEXTS[0]], whole, nats, nats > 0.5, steps, nats[:1, None]))
    assert [row["tokens"] for row in rows] == [101] * 3 + [100] * 7
    for row in rows:
        inside = (nats >= row["from"]) & (nats <= row["to"])
        assert int(inside.sum()) == row["tokens"]
        assert row["steps"] == pytest.approx(float(steps[inside].double().mean()))
    assert all(a["to"] <= b["from"] for a, b in pairwise(rows))


def test_few_tokens_make_few_rows() -> None:
    assert [row["tokens"] for row in by_surprisal(score(make_model(), TEXTS[:1]))] == [1] * 5


def test_the_order_of_evaluations() -> None:
    better, worse = TextEvaluation(1.5, 0.2, 3.0), TextEvaluation(1.6, 0.9, 1.0)
    assert worse < better and not better < worse
    assert worse.reached(0.9) and not worse.reached(0.91)
    assert TextEvaluation.from_dict(better.to_dict()) == better
    assert str(better) == (
        f"perplexity {exp(1.5):.3f}, {1.5 / log(2):.4f} bits a token, 20.00% of tokens right; "
        "mean steps 3.00"
    )


def test_no_texts() -> None:
    with pytest.raises(ValueError, match="there are no texts to evaluate on"):
        score(make_model(), [])
