from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from graphut.models.config import SearchOptions
from graphut.models.decoders import TokenDecoder
from graphut.models.search import Hypothesis, beam_search
from graphut.models.search import sample as sample_by

BOS, EOS = 0, 1
SHARES = torch.tensor([0.05, 0.15, 0.4, 0.1, 0.3])


class Table:
    """A token decoder with random logits for each sentence and prefix, some flat, some steep."""

    def __init__(self, sentences: int, vocabulary: int, seed: int) -> None:
        self.prefixes = [(sentence,) for sentence in range(sentences)]
        self.vocabulary, self.seed = vocabulary, seed

    def advance(self, parents: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        pairs = zip(parents.tolist(), tokens.tolist(), strict=True)
        self.prefixes = [(*self.prefixes[parent], token) for parent, token in pairs]
        rows = [self.row(prefix) for prefix in self.prefixes]
        return torch.stack(rows), torch.tensor([steps_of(prefix) for prefix in self.prefixes])

    def row(self, prefix: tuple[int, ...]) -> Tensor:
        generator = torch.Generator().manual_seed(hash((self.seed, *prefix)) % 2**31)
        spread = 4 * torch.rand(1, generator=generator) ** 2
        return spread * torch.randn(self.vocabulary, generator=generator)


def steps_of(prefix: Sequence[int]) -> int:
    """The steps that a `Table` says the last token of a prefix took."""
    return hash(tuple(prefix)) % 7 + 1


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
            assert token == 1 + int(row[1:].argmax())  # <bos> is never generated
            score, steps = score + row[token].item(), [*steps, steps_of(prefix)]
            prefix = (*prefix, token)
        assert hypothesis.score == pytest.approx(score, abs=1e-12)
        assert hypothesis.steps == steps
        assert 1 not in hypothesis.tokens[:-1]
        assert hypothesis.tokens[-1] == 1 or len(hypothesis.tokens) == 6
    assert len({len(hypothesis.tokens) for hypothesis in found}) > 2


@pytest.mark.parametrize("options", [{"temperature": 1e-6}, {"temperature": 1e-300}])
def test_sample_at_the_coldest_is_greedy(options: dict[str, float]) -> None:
    assert sample(Table(6, 4, 1), 6, **options) == greedy(Table(6, 4, 1), 6)


def test_sample_draws_the_same_with_the_same_generator() -> None:
    def draw(seed: int) -> Any:
        return sample(Table(20, 4, 1), 20, generator=torch.Generator().manual_seed(seed))

    before = torch.get_rng_state()
    assert draw(0) == draw(0) != draw(1)
    assert torch.equal(torch.get_rng_state(), before)  # torch's own generator is not used


def test_sample_scores_are_independent_of_the_temperature() -> None:
    table = Die(50, 5, 0)
    for found in sample(table, 50, temperature=3.0):
        expected = SHARES.double()[torch.tensor(found.tokens)].log().sum().item()
        assert found.score == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("temperature", "weights"),
    [
        (1.0, SHARES * torch.tensor([0, 1, 1, 1, 1])),
        (0.5, SHARES**2 * torch.tensor([0, 1, 1, 1, 1])),
        (2.0, SHARES**0.5 * torch.tensor([0, 1, 1, 1, 1])),
    ],
)
def test_sample_follows_the_distribution(temperature: float, weights: Tensor) -> None:
    draws = 20_000
    found = sample(
        Die(draws, 5, 0),
        draws,
        max_length=1,
        temperature=temperature,
        generator=torch.Generator().manual_seed(0),
    )
    counts = torch.bincount(torch.tensor([h.tokens[0] for h in found]), minlength=5)
    expected = draws * weights / weights.sum()
    assert not counts[expected == 0].any()
    likely = expected > 0
    chi_square = ((counts - expected)[likely] ** 2 / expected[likely]).sum()
    assert chi_square < 18.5  # at most 4 degrees of freedom: one seed in a thousand fails


PENALTIES = [0.0, 0.6, 1.0, 3.0]


def search(
    decoder: TokenDecoder,
    sentences: int = 3,
    beam_size: int = 64,
    max_length: int = 4,
    length_penalty: float = 0.6,
) -> list[Hypothesis]:
    sizes = {"beam_size": beam_size, "max_length": max_length}
    options = SearchOptions(**sizes, length_penalty=length_penalty)  # type: ignore[arg-type]
    return beam_search(decoder, torch.full((sentences,), BOS), options)


def every_sequence(vocabulary: int, max_length: int) -> list[tuple[int, ...]]:
    """Return all token sequences that end in `eos`, and those of `max_length` without."""
    others = [token for token in range(vocabulary) if token not in (BOS, EOS)]
    ended = [(*tokens, EOS) for n in range(max_length) for tokens in product(others, repeat=n)]
    return ended + list(product(others, repeat=max_length))


def worth(score: float, length: int, penalty: float) -> float:
    return score / ((5 + length) / 6) ** penalty


def best_in_table(table: Table, sentence: int, max_length: int, penalty: float) -> Hypothesis:
    def hypothesis(tokens: tuple[int, ...]) -> Hypothesis:
        prefixes = [(sentence, BOS, *tokens[:n]) for n in range(len(tokens))]
        rows = [table.row(prefix).double().log_softmax(-1) for prefix in prefixes]
        score = sum(row[token].item() for row, token in zip(rows, tokens, strict=True))
        return Hypothesis(list(tokens), [steps_of(prefix) for prefix in prefixes], score)

    found = map(hypothesis, every_sequence(table.vocabulary, max_length))
    return max(found, key=lambda h: worth(h.score, len(h.tokens), penalty))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize(("vocabulary", "max_length"), [(4, 5), (5, 3)])
def test_beam_search_with_a_wide_beam_is_exhaustive(
    seed: int, penalty: float, vocabulary: int, max_length: int
) -> None:
    def table(sentences: int = 3) -> Table:
        return Table(sentences, vocabulary, seed)

    wide = vocabulary ** (max_length - 1)
    options = {"beam_size": wide, "max_length": max_length, "length_penalty": penalty}
    for sentence, found in enumerate(search(table(), **options)):
        best = best_in_table(table(), sentence, max_length, penalty)
        assert (found.tokens, found.steps) == (best.tokens, best.steps)
        assert found.score == pytest.approx(best.score, abs=1e-12)


def test_beam_search_stops_when_nothing_can_win() -> None:
    class Ending(Table):
        def row(self, prefix: tuple[int, ...]) -> torch.Tensor:
            assert len(prefix) == 2, "eos is certain after bos"
            return torch.tensor([0.0, 50.0, 0.0])

    for hypothesis in search(Ending(2, 3, 0), 2, beam_size=2, max_length=100):
        assert hypothesis.tokens == [EOS]


@pytest.mark.parametrize(("penalty", "expected"), [(0.0, [EOS]), (3.0, [2, 2, EOS])])
def test_beam_search_keeps_ended_hypotheses_outside_the_beam(
    penalty: float, expected: list[int]
) -> None:
    class Tempting(Table):
        def row(self, prefix: tuple[int, ...]) -> torch.Tensor:
            last = len(prefix) > 3
            return torch.tensor([0.05, 0.9, 0.05] if last else [0.01, 0.5, 0.49]).log()

    [found] = search(Tempting(1, 3, 0), 1, 1, max_length=3, length_penalty=penalty)
    assert found.tokens == expected
