from __future__ import annotations

from itertools import product

import pytest
import torch

from graphut.models.decoding.beam import beam_search
from graphut.models.decoding.cached import CachedDecoder
from graphut.models.decoding.decoder import TokenDecoder
from graphut.models.decoding.prefix import PrefixDecoder
from graphut.models.decoding.search import Hypothesis, SearchOptions, sample
from tests.models.decoding.cases import SOURCES, VOCABULARY, Table, build_setting, steps_of

BOS, EOS = 0, 1
PENALTIES = [0.0, 0.6, 1.0, 3.0]


def search(
    decoder: TokenDecoder,
    sentences: int = 3,
    beam_size: int = 64,
    max_length: int = 4,
    length_penalty: float = 0.6,
) -> list[Hypothesis]:
    options = SearchOptions(
        beam_size=beam_size, max_length=max_length, length_penalty=length_penalty
    )
    return beam_search(decoder, torch.full((sentences,), BOS), options)


def every_sequence(vocabulary: int, max_length: int) -> list[tuple[int, ...]]:
    """Those that end in `eos`, and those of `max_length` without."""
    others = [token for token in range(vocabulary) if token != EOS]
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
@pytest.mark.parametrize(("vocabulary", "max_length"), [(3, 5), (4, 3)])
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


def test_beam_search_cases_have_many_lengths() -> None:
    found = [search(Table(8, 4, 0), 8, length_penalty=penalty) for penalty in PENALTIES]
    lengths = [[len(hypothesis.tokens) for hypothesis in batch] for batch in found]
    assert {length for batch in lengths for length in batch} >= {1, 2, 4}
    assert lengths[0] != lengths[-1]
    assert any(hypothesis.tokens[-1] != EOS for batch in found for hypothesis in batch)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("penalty", PENALTIES)
def test_beam_search_with_a_decoder_is_exhaustive(seed: int, penalty: float) -> None:
    setting = build_setting(halted=["copied", "frozen", "stale"][seed])
    predict = setting.predict
    setting.predict = lambda out: (1 + seed) * predict(out)[:, :4]
    sequences = every_sequence(4, 4)
    padded = torch.tensor([[BOS, *s[:-1], *[BOS] * (4 - len(s))] for s in sequences])
    for sentence, found in enumerate(
        search(setting.decoder(CachedDecoder), length_penalty=penalty)
    ):
        owner = torch.full((len(sequences),), sentence)
        rows = [setting.fed(owner, padded[:, :n]) for n in range(1, 5)]
        scores = torch.stack([logits.log_softmax(-1) for logits, _ in rows], 1)
        steps = torch.stack([steps for _, steps in rows], 1).tolist()
        score = [
            sum(scores[i, n, t].item() for n, t in enumerate(s)) for i, s in enumerate(sequences)
        ]
        best = max(range(len(score)), key=lambda i: worth(score[i], len(sequences[i]), penalty))
        assert found.tokens == list(sequences[best])
        assert found.steps == steps[best][: len(found.tokens)]
        assert found.score == pytest.approx(score[best], abs=1e-10)


@pytest.mark.parametrize("beam_size", [1, 2, 3, 7])
@pytest.mark.parametrize("halted", ["copied", "frozen", "stale", "running"])
def test_beam_search_with_the_cache_equals_the_prefix_decoder(beam_size: int, halted: str) -> None:
    setting = build_setting(halted=halted)
    found, expected = (
        search(setting.decoder(kind), beam_size=beam_size, max_length=7)
        for kind in (CachedDecoder, PrefixDecoder)
    )
    for a, b in zip(found, expected, strict=True):
        assert (a.tokens, a.steps) == (b.tokens, b.steps)
        assert a.score == pytest.approx(b.score, abs=1e-10)


@pytest.mark.parametrize("beam_size", [1, 2, 4])
def test_beam_search_keeps_sentences_apart(beam_size: int) -> None:
    setting = build_setting()
    together = search(setting.decoder(CachedDecoder), beam_size=beam_size, max_length=6)
    for sentence in range(len(SOURCES)):
        decoder = setting.alone(sentence).decoder(CachedDecoder)
        [alone] = search(decoder, 1, beam_size=beam_size, max_length=6)
        assert (alone.tokens, alone.steps) == (together[sentence].tokens, together[sentence].steps)
        assert alone.score == pytest.approx(together[sentence].score, abs=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_beam_search_never_ends_below_greedy(seed: int) -> None:
    """Without a length penalty, for a beam that holds what greedy holds."""
    first = torch.full((4,), BOS)
    likeliest = sample(Table(4, 6, seed), first, SearchOptions(max_length=5))
    for beam_size in (1, 6**4):
        found = search(Table(4, 6, seed), 4, beam_size, max_length=5, length_penalty=0.0)
        for a, b in zip(found, likeliest, strict=True):
            assert a.score >= b.score


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


def test_beam_search_takes_tokens_that_cannot_come() -> None:
    class Narrow(Table):
        def row(self, prefix: tuple[int, ...]) -> torch.Tensor:
            ends = len(prefix) > 3
            return torch.tensor([-torch.inf, 0.0 if ends else -torch.inf, -torch.inf, 0.0])

    [found] = search(Narrow(1, 4, 0), 1, beam_size=3, max_length=6)
    assert found.tokens[:2] == [3, 3] and found.tokens[-1] == EOS
    assert found.score > -torch.inf


def test_beam_search_takes_a_beam_larger_than_the_vocabulary() -> None:
    assert VOCABULARY < 100
    assert len(search(build_setting().decoder(CachedDecoder), beam_size=100, max_length=3)) == 3
