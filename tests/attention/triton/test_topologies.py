from __future__ import annotations

import pytest

pytest.importorskip("triton", reason="needs triton")

from graphut.topology import parse
from tests.attention.triton.cases import by_kernels, by_masks, drawn
from tests.helpers import assert_same
from tests.topology.catalogue import ALL


@pytest.mark.parametrize("spec", ALL)
def test_attention_equals_that_by_masks(spec: str) -> None:
    layout = parse(spec).layout([ALL[spec], 1])
    tensors = drawn(layout, heads=1)
    assert_same(by_kernels(layout, tensors), by_masks(layout, tensors), 1e-5)
