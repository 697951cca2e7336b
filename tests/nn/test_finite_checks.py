from __future__ import annotations

import pytest
import torch

from graphut.nn.finite_checks import FiniteChecks


@pytest.mark.parametrize(("wrong", "words"), [(1.5, "outside of"), (torch.nan, "is NaN")])
def test_finite_checks_name_the_node_of_a_wrong_probability(wrong: float, words: str) -> None:
    probability = torch.tensor([0.0, wrong, 1.0])
    with pytest.raises(ValueError, match=f"node 7 .*{words}.* at step 3|node 7 {words} at step 3"):
        FiniteChecks().check_probability(probability, torch.tensor([5, 7, 9]), 3)
