import pytest
import torch

from graphut.attention.ragged import row_sums
from tests.helpers import assert_same, normal


@pytest.mark.gpu
def test_row_sums_gives_the_same_bits_twice_on_a_gpu() -> None:
    row = torch.randint(100, (100_000,), generator=torch.Generator().manual_seed(0))
    values = normal(100_000, 4, dtype=torch.float32).detach()
    here = row_sums(values, row, 100)
    first, *others = (row_sums(values.cuda(), row.cuda(), 100) for _ in range(5))
    assert all(torch.equal(first, other) for other in others)
    assert_same([first.cpu()], [here], 1e-5)


def test_row_sums_of_16_bits_are_those_of_float32() -> None:
    ones, row = torch.ones(1000, dtype=torch.bfloat16), torch.zeros(1000, dtype=torch.int64)
    assert row_sums(ones, row, 1).tolist() == [1000.0]
