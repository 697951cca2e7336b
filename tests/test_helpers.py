from __future__ import annotations

from itertools import combinations, product

import pytest
import torch

from tests.helpers import assert_same, covering


def test_a_covering_design_has_every_pair_in_few_rows() -> None:
    factors = {"a": "xyz", "b": (1, 2), "c": (True, False), "d": "pq"}
    rows = covering(**factors)
    for (name, values), (other, others) in combinations(factors.items(), 2):
        assert {(row[name], row[other]) for row in rows} == set(product(values, others))
    assert len(rows) <= 8


def test_closeness_sees_a_difference_a_shape_and_a_dtype() -> None:
    ones = torch.ones(3)
    assert_same([ones], [ones + 1e-6], 1e-5)
    for other in (ones + 1e-4, ones[:, None], ones.double(), ones * torch.nan):
        with pytest.raises(AssertionError):
            assert_same([ones], [other], 1e-5)
