from __future__ import annotations

import torch

from graphut.topology import Causal, Expander, Random, Window, statistics
from graphut.topology.random_graphs import random_bits, random_choice
from tests.topology.brute_random import draw


def test_random_links_are_half_before_and_half_after() -> None:
    mask = Random(5, seed=1).mask(30)
    inner = mask[3:-2]
    assert (inner.sum(1) == 5).all()
    assert (mask.tril(-1).sum(1)[3:] == 3).all() and (mask.triu(1).sum(1)[:-2] == 2).all()
    assert not mask.diagonal().any()


def test_random_in_a_short_sentence_sees_all_others() -> None:
    assert torch.equal(Random(10**12).mask(5), ~torch.eye(5, dtype=torch.bool))
    assert Random(3).layout([1]).num_edges == 0


def test_random_depends_on_the_seed() -> None:
    assert torch.equal(Random(3, 7).mask(40), Random(3, 7).mask(40))
    assert not torch.equal(Random(3, 7).mask(40), Random(3, 8).mask(40))


def test_random_past_is_stable_and_future_is_not() -> None:
    random = Random(4, seed=2)
    past = random.causal()
    assert not random.stable and past.stable and (Window(1) & Causal() | past).stable
    assert (Window(1) | random).causal().stable and not (random & Window(1)).stable
    assert torch.equal(past.mask(63), past.mask(64)[:63, :63])
    assert not torch.equal(random.mask(63), random.mask(64)[:63, :63])


def test_expander_is_symmetric_regular_and_connected() -> None:
    mask = Expander(6, seed=3).mask(500)
    assert torch.equal(mask, mask.T) and not mask.diagonal().any()
    assert (mask.sum(1) <= 6).all() and mask.sum() >= 500 * 6 - 40
    assert statistics(Expander(6, seed=3), 500).unreachable is None


def test_expander_needs_few_steps_anywhere() -> None:
    assert statistics(Expander(6, seed=3), 500).diameter <= 7
    assert statistics(Window(3), 500).diameter == 167


def test_expander_depends_on_the_seed() -> None:
    assert not torch.equal(Expander(4, 1).mask(30), Expander(4, 2).mask(30))


def test_expander_in_a_short_sentence_has_fewer_neighbours() -> None:
    assert Expander(4).mask(1).tolist() == [[True]]
    assert Expander(4).mask(2).tolist() == [[False, True], [True, False]]


def test_random_bits_differ_by_seed_and_keys() -> None:
    numbers = {
        int(random_bits(seed, torch.tensor(a), b))
        for seed in (0, 1, -1, 2**40)
        for a in range(10)
        for b in range(10)
    }
    assert len(numbers) == 400


def test_random_bits_equal_those_of_plain_integers() -> None:
    for seed in (0, 7, -7, 2**40 + 7, 10**40):
        assert random_bits(seed, 3, torch.arange(5)).tolist() == [
            draw(seed, 3, key) for key in range(5)
        ]


def test_random_choice_is_distinct_and_within_the_size() -> None:
    size = torch.arange(20)
    for row, n in zip(random_choice(size, 6, 3, size).tolist(), range(20), strict=True):
        chosen = [number for number in row if number >= 0]
        assert len(set(chosen)) == len(chosen) == min(n, 6)
        assert all(number < n for number in chosen)


def test_random_choice_takes_every_pair_as_often() -> None:
    who = torch.arange(30000)
    pairs = random_choice(torch.full_like(who, 4), 2, 11, who).sort(dim=1).values
    counts = torch.bincount(pairs[:, 0] * 4 + pairs[:, 1])
    counts = counts[counts > 0].double()
    assert len(counts) == 6
    # Chi-squared with 5 degrees of freedom is above 20.5 once in a thousand times.
    assert float(((counts - 5000) ** 2 / 5000).sum()) < 20.5
