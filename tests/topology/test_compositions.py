from __future__ import annotations

import pytest

from graphut.topology import (
    Causal,
    Expander,
    Global,
    Random,
    Virtual,
    Window,
    bigbird,
    exphormer,
    longformer,
    parse,
)


def test_compositions_are_made_of_their_parts() -> None:
    assert longformer(4, 2) == Window(4) | Global(0, 1)
    assert bigbird(4, 2, 3, seed=7) == longformer(4, 2) | Random(3, 7)
    assert exphormer(4, 2, seed=7) == Window(1) | Expander(4, 7) | Virtual(2)


def test_compositions_have_names_in_specs() -> None:
    assert parse("longformer:4,2") == longformer(4, 2)
    assert parse("bigbird:4,2,3") == bigbird(4, 2, 3)
    assert parse("causal & exphormer:4,2@7") == Causal() & exphormer(4, 2, 7)


def test_bigbird_number_of_edges_is_at_most_that_of_its_parts() -> None:
    n = 1000
    parts = n * 9 - 20 + 2 * 2 * n - 4 + 3 * n
    assert parts - 30 * n**0.5 < bigbird(4, 2, 3).num_edges(n) < parts


def test_bigbird_memory_is_that_of_its_edges() -> None:
    # Densely, these would be 10 GB, and the causal graph spelled out 40.
    topology = bigbird(3, 2, 4, seed=1)
    assert topology.layout([10**5]).num_edges < 15 * 10**5
    assert topology.causal().layout([10**5]).num_edges < 9 * 10**5
    assert (Causal() & topology | Window(4).causal()).layout([10**5]).num_edges < 10**6


def test_longformer_names_bad_values() -> None:
    with pytest.raises(ValueError, match="global_tokens must be at least 1, got 0"):
        longformer(4, 0)
