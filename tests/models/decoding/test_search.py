from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from graphut.models.decoding.cached import CachedDecoder
from graphut.models.decoding.decoder import TokenDecoder
from graphut.models.decoding.prefix import PrefixDecoder
from graphut.models.decoding.search import Hypothesis, SearchOptions, exclude, nucleus
from graphut.models.decoding.search import sample as sample_by
from tests.models.decoding.cases import SOURCES, Table, build_setting, steps_of

BOS, EOS = 0, 1
SHARES = torch.tensor([0.05, 0.15, 0.4, 0.1, 0.3])


def sample(decoder: TokenDecoder, sentences: int, **options: Any) -> list[Hypothesis]:
    """Draw up to 6 tokens for each sentence."""
    first = torch.full((sentences,), BOS)
    options = {"max_length": 6, "temperature": 1.0, **options}
    return sample_by(decoder, first, SearchOptions(**options))


def greedy(decoder: TokenDecoder, sentences: int) -> list[Hypothesis]:
    """Take the likeliest of up to 6 tokens for each sentence."""
    return sample(decoder, sentences, temperature=None)


class Die(Table):
    """Always the same distribution, `SHARES`."""

    def row(self, prefix: tuple[int, ...]) -> Tensor:
        return SHARES.log() + 7.0


def test_sample_without_temperature_follows_the_likeliest_token() -> None:
    table = Table(6, 4, seed=1)
    found = greedy(table, 6)
    for sentence, hypothesis in enumerate(found):
        prefix, score, steps = (sentence, 0), 0.0, []
        for token in hypothesis.tokens:
            row = table.row(prefix).double().log_softmax(-1)
            assert token == int(row.argmax())
            score, steps = score + row.max().item(), [*steps, steps_of(prefix)]
            prefix = (*prefix, token)
        assert hypothesis.score == pytest.approx(score, abs=1e-12)
        assert hypothesis.steps == steps
        assert 1 not in hypothesis.tokens[:-1]
        assert hypothesis.tokens[-1] == 1 or len(hypothesis.tokens) == 6
    assert len({len(hypothesis.tokens) for hypothesis in found}) > 2


@pytest.mark.parametrize("halted", ["copied", "frozen", "stale", "running"])
def test_sample_with_the_cache_equals_the_prefix_decoder(halted: str) -> None:
    setting = build_setting(halted=halted)
    found = greedy(setting.decoder(CachedDecoder), 3)
    again = greedy(setting.decoder(PrefixDecoder), 3)
    for i in range(len(SOURCES)):
        [alone] = greedy(setting.alone(i).decoder(CachedDecoder), 1)
        for other in (again[i], alone):
            assert (found[i].tokens, found[i].steps) == (other.tokens, other.steps)
            assert found[i].score == pytest.approx(other.score, abs=1e-10)


@pytest.mark.parametrize(
    "options", [{"temperature": 1e-6}, {"temperature": 1e-300}, {"top_p": 1e-9}]
)
def test_sample_at_the_coldest_is_greedy(options: dict[str, float]) -> None:
    assert sample(Table(6, 4, 1), 6, **options) == greedy(Table(6, 4, 1), 6)


def test_sample_draws_the_same_with_the_same_generator() -> None:
    def draw(seed: int) -> Any:
        return sample(Table(20, 4, 1), 20, generator=torch.Generator().manual_seed(seed))

    assert draw(0) == draw(0)
    assert draw(0) != draw(1)


def test_sample_with_a_generator_leaves_torchs_own_alone() -> None:
    before = torch.get_rng_state()
    sample(Table(3, 4, 1), 3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(torch.get_rng_state(), before)


def test_sample_scores_are_independent_of_the_temperature() -> None:
    table = Die(50, 5, 0)
    for found in sample(table, 50, temperature=3.0, top_p=0.9):
        expected = SHARES.double()[torch.tensor(found.tokens)].log().sum().item()
        assert found.score == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("temperature", "top_p", "weights"),
    [
        (1.0, 1.0, SHARES),
        (0.5, 1.0, SHARES**2),
        (2.0, 1.0, SHARES**0.5),
        (1.0, 0.6, SHARES * torch.tensor([0, 0, 1, 0, 1])),
        (1.0, 0.71, SHARES * torch.tensor([0, 1, 1, 0, 1])),
        (0.5, 0.8, SHARES**2 * torch.tensor([0, 0, 1, 0, 1])),
    ],
)
def test_sample_follows_the_distribution(temperature: float, top_p: float, weights: Tensor) -> None:
    draws = 20_000
    found = sample(
        Die(draws, 5, 0),
        draws,
        max_length=1,
        temperature=temperature,
        top_p=top_p,
        generator=torch.Generator().manual_seed(0),
    )
    counts = torch.bincount(torch.tensor([h.tokens[0] for h in found]), minlength=5)
    expected = draws * weights / weights.sum()
    assert not counts[expected == 0].any()
    likely = expected > 0
    chi_square = ((counts - expected)[likely] ** 2 / expected[likely]).sum()
    assert chi_square < 18.5  # at most 4 degrees of freedom: one seed in a thousand fails


@pytest.mark.parametrize(
    ("top_p", "kept"),
    [
        (0.39, [2]),
        (0.41, [2, 4]),
        (0.69, [2, 4]),
        (0.71, [1, 2, 4]),
        (0.86, [1, 2, 3, 4]),
        (0.96, [0, 1, 2, 3, 4]),
        (1.0, [0, 1, 2, 3, 4]),
    ],
)
def test_nucleus_is_the_smallest_set_that_reaches_top_p(top_p: float, kept: list[int]) -> None:
    rows = torch.stack([SHARES, SHARES.flip(0)])
    found = nucleus(rows, top_p)
    assert found[0].nonzero()[:, 0].tolist() == kept
    assert torch.equal(found[0], torch.where(found[0] > 0, SHARES, 0.0))
    assert torch.equal(found[1], found[0].flip(0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_length": 0}, "max_length must be at least 1, got 0"),
        ({"temperature": -1.0}, "temperature must be above 0, got -1.0"),
        ({"beam_size": 2, "top_p": 0.5}, "beam_size=2 and sampling"),
    ],
)
def test_search_options_refuses_what_is_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SearchOptions(**options)


def test_exclude_leaves_other_scores_alone() -> None:
    scores = torch.tensor([[2.0, 1.0], [0.0, 3.0]])
    assert exclude(scores, None) is scores
    assert exclude(scores, 0).tolist() == [[-torch.inf, 1.0], [-torch.inf, 3.0]]
