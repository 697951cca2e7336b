import pytest
import torch
from torch import Tensor

from graphut.attention.dropout import dropout_factors

EDGES, HEADS = 5000, 4


def kept(dropout: float = 0.3, seed: int | Tensor = 7, first_edge: int = 0) -> Tensor:
    edge = torch.arange(first_edge, first_edge + EDGES)
    return dropout_factors(edge, HEADS, dropout, seed, torch.float64) != 0


@pytest.mark.parametrize("dropout", [0.0, 0.01, 0.3, 0.9])
def test_dropout_factors_drop_their_share(dropout: float) -> None:
    factors = dropout_factors(torch.arange(EDGES), HEADS, dropout, 7, torch.float64)
    assert set(factors.unique().tolist()) <= {0.0, 1 / (1 - dropout)}
    share = (factors == 0).double().mean()
    spread = (dropout * (1 - dropout) / (EDGES * HEADS)) ** 0.5
    assert abs(share - dropout) <= 4 * spread


@pytest.mark.parametrize(
    "other",
    [
        *(kept(seed=seed) for seed in (8, 7 + 2**32, 7 << 32 | 7, -1)),
        *(kept(first_edge=edge) for edge in (2**32, 1)),
        kept().roll(1, dims=1),  # another head
    ],
)
def test_dropout_factors_of_other_seeds_edges_and_heads_are_unrelated(other: Tensor) -> None:
    both = (kept() & other).double().mean()
    assert abs(both - 0.49) <= 5 * (0.49 * 0.51 / (EDGES * HEADS)) ** 0.5


def test_dropout_factors_depend_on_edge_and_head_alone() -> None:
    whole = dropout_factors(torch.arange(EDGES), HEADS, 0.3, 7, torch.float32)
    some = torch.tensor([4999, 0, 17, 17])
    assert torch.equal(dropout_factors(some, HEADS, 0.3, 7, torch.float32), whole[some])
    assert torch.equal(dropout_factors(some, 2, 0.3, 7, torch.float32), whole[some, :2])
