import torch

from graphut.topology import Causal, Expander, Random, Window, statistics


def test_random_past_is_stable_and_future_is_not() -> None:
    random = Random(4, seed=2)
    past = random.causal()
    assert not random.stable and past.stable and (Window(1) & Causal() | past).stable
    assert (Window(1) | random).causal().stable and not (random & Window(1)).stable
    assert torch.equal(past.mask(63), past.mask(64)[:63, :63])
    assert not torch.equal(random.mask(63), random.mask(64)[:63, :63])


def test_expander_is_regular_connected_and_of_small_diameter() -> None:
    mask = Expander(6, seed=3).mask(500)
    assert torch.equal(mask, mask.T) and not mask.diagonal().any()
    assert (mask.sum(1) <= 6).all() and mask.sum() >= 500 * 6 - 40
    found = statistics(Expander(6, seed=3), 500)
    assert found.unreachable is None and found.diameter <= 7
