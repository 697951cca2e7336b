from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from graphut.attention.geometric import geometric_bias
from graphut.attention.library import compiled
from graphut.attention.native import geometric
from graphut.attention.native.geometric import fast_geometric_bias
from graphut.topology import Complete
from tests.attention.test_geometric import make_inputs
from tests.helpers import assert_same

pytestmark = pytest.mark.skipif(compiled() is None, reason="the compiled kernels are not built")


def test_geometric_bias_is_the_plain_one_where_the_kernels_cannot_be_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layout, inputs, calls = Complete().layout([3]), make_inputs(3), []

    def plain(*given: Any) -> Tensor:
        calls.append(given)
        return geometric_bias(*given)

    monkeypatch.setattr(geometric, "geometric_bias", plain)
    expected = fast_geometric_bias(layout, *inputs, None).exp()
    assert not calls
    torch.vmap(lambda query: fast_geometric_bias(layout, query, *inputs[1:], None))(inputs[0][None])
    monkeypatch.setattr(geometric, "compiled", lambda: None)
    assert_same([fast_geometric_bias(layout, *inputs, None).exp()], [expected])
    assert len(calls) == 2
