from __future__ import annotations

import pytest
import torch

from graphut.topology import Causal, Fixed, Strided


def test_strided_number_of_edges_is_about_that_of_the_paper() -> None:
    n, stride = 10**6, 1000
    assert Strided(stride).num_edges(n) == pytest.approx(n * stride + n**2 / (2 * stride), rel=0.01)


def test_strided_in_a_short_sentence_is_causal() -> None:
    assert torch.equal(Strided(6).mask(7), Causal().mask(7))
    assert Strided(6).num_edges(8) == Causal().num_edges(8) - 1


def test_fixed_number_of_edges_is_about_that_of_the_paper() -> None:
    n, block, summary = 10**6, 1000, 8
    expected = n * block / 2 + summary * n**2 / (2 * block)
    assert Fixed(block, summary).num_edges(n) == pytest.approx(expected, rel=0.01)


def test_fixed_in_a_short_sentence_is_causal() -> None:
    assert torch.equal(Fixed(6, 1).mask(6), Causal().mask(6))
    assert Fixed(6, 1).num_edges(7) == Causal().num_edges(7) - 5
