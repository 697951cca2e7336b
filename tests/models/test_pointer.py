from itertools import chain
from math import exp, inf, log
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphut.models.outputs import PointerOutput
from graphut.models.pointer import likeliest, log_probability
from graphut.nn.reference import dense_recurrence
from graphut.topology import Complete
from tests.helpers import assert_same
from tests.models.cases import CASES, build_pointer

FEATS = 8
PASSAGES = list(CASES["passages"].samples)


@pytest.mark.parametrize("positions", ["start", "end"])
@pytest.mark.parametrize("halted", ["copied", "frozen", "stale", "running"])
def test_pointer_equals_the_dense_recurrence_and_a_bilinear_form(
    halted: str, positions: str
) -> None:
    model: Any = build_pointer(halted=halted, positions=positions)
    for passage in PASSAGES:
        places = torch.arange(1, len(passage) + 1)
        out, steps, *_ = dense_recurrence(
            model.encoder,
            Complete().graph([len(passage)]),
            model.embedding.weight[passage] * FEATS**0.5,
            positions=places if positions == "start" else places.flip(0),
        )
        question = model.question.weight @ out[-1] + model.question.bias
        expected = (out @ question / FEATS**0.5).log_softmax(0)
        found = model([passage])
        assert_same([found.scores], [expected])
        assert torch.equal(found.steps, steps)


@st.composite
def outputs(draw: st.DrawFn) -> PointerOutput:
    """Scores at places with few words, so that words come again."""
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    count = sum(lengths)
    scores = draw(st.lists(st.floats(-60, 5), min_size=count, max_size=count))
    parts = torch.tensor(scores, dtype=torch.float64).split(lengths)
    tokens = draw(st.lists(st.integers(2, 5), min_size=count, max_size=count))
    each = torch.cat([part.log_softmax(0) for part in parts]).requires_grad_()
    record: Any = None
    return PointerOutput(each, torch.tensor(tokens), record, record, torch.tensor(lengths))


def by_hand(output: PointerOutput) -> list[dict[int, float]]:
    """The log-probability of each word of each passage."""
    found = []
    scores, tokens = (part.split(output.lengths.tolist()) for part in output[:2])
    for own, words in zip(scores, tokens, strict=True):
        sums: dict[int, float] = {}
        for score, word in zip(own.tolist(), words.tolist(), strict=True):
            sums[word] = sums.get(word, 0.0) + exp(score)
        found.append({word: log(share) for word, share in sums.items()})
    return found


@given(outputs(), st.integers(2, 6))
def test_log_probability_sums_the_positions_of_a_word(output: PointerOutput, word: int) -> None:
    answers = torch.full((len(output.lengths),), word)
    found = log_probability(output, answers)
    assert found.tolist() == pytest.approx([own.get(word, -inf) for own in by_hand(output)])


@given(outputs())
def test_likeliest_is_the_word_of_the_largest_sum(output: PointerOutput) -> None:
    words, likely = likeliest(output)
    for word, own, expected in zip(words.tolist(), likely.tolist(), by_hand(output), strict=True):
        assert own == pytest.approx(max(expected.values()))
        assert expected[word] == pytest.approx(own)


@given(outputs())
def test_log_probability_gradient_is_the_share_of_each_position(output: PointerOutput) -> None:
    words, likely = likeliest(output)
    found = log_probability(output, words)
    [gradient] = torch.autograd.grad(found.sum(), output.scores)
    passage = torch.repeat_interleave(output.lengths)
    expected = (output.scores - likely[passage]).exp() * (output.tokens == words[passage])
    assert_same([gradient], [expected])


def test_likeliest_takes_the_least_id_of_equal_words() -> None:
    record: Any = None
    half = torch.tensor([0.5, 0.5]).log()
    output = PointerOutput(half, torch.tensor([6, 3]), record, record, torch.tensor([2]))
    assert likeliest(output)[0].tolist() == [3]


def test_pointer_predict_follows_the_scores_and_restores_the_mode() -> None:
    model = build_pointer(dropout=0.5).train()
    found = model.predict(PASSAGES)
    assert model.training and model.encoder.training
    output = model.eval()(PASSAGES)
    words, likely = likeliest(output)
    assert [each.word for each in found] == words.tolist()
    assert [each.log_probability for each in found] == pytest.approx(likely.tolist())
    assert [*chain(*(each.probabilities for each in found))] == pytest.approx(
        output.scores.exp().tolist()
    )
    assert [*chain(*(each.steps for each in found))] == output.steps.tolist()
