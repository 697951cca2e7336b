from __future__ import annotations

import torch

from graphut.nn.context import GraphContext
from graphut.topology import Complete
from tests.helpers import assert_same, normal

SOME = torch.tensor([1, 4])


def test_context_replaces_the_rows_that_are_written_in_a_copy() -> None:
    context, first, later = GraphContext(Complete().layout([5])), normal(5, 16), normal(2, 16)
    context.write(None, first)
    context.write(SOME, later)
    assert_same([context.key_value], [first.index_copy(0, SOME, later)])
    assert_same([first], [normal(5, 16)])
