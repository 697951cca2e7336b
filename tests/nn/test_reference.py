from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphut.nn import ScheduledHalting, dense_recurrence
from tests.helpers import Pairs, assert_same, covering, layout_of, multigraphs, name_of
from tests.nn.cases import MODES, SIGNALLED, SIGNALS, build_case
from tests.nn.naive import naive_recurrence


@pytest.mark.parametrize("row", [*covering(**MODES), *SIGNALLED], ids=name_of)
def test_reference_the_oracle_is_the_definition(row: dict[str, Any]) -> None:
    case = build_case(**row)
    assert_same(case.run(dense_recurrence), case.run(naive_recurrence))


@settings(max_examples=15)
@given(multigraphs(live=True), st.data())
def test_reference_the_oracle_is_the_definition_on_any_graph(
    graph: tuple[Pairs, int, int], data: st.DataObject
) -> None:
    options = {**MODES, **SIGNALS}
    modes = {name: data.draw(st.sampled_from(values)) for name, values in options.items()}
    steps = data.draw(st.lists(st.integers(1, 4), min_size=graph[1], max_size=graph[1]))
    halting = ScheduledHalting(torch.tensor(steps))
    case = build_case(**modes, graph=layout_of(*graph), halting=halting, max_steps=3)
    assert_same(case.run(dense_recurrence), case.run(naive_recurrence))


def test_reference_nodes_without_in_edges() -> None:
    case = build_case(graph=layout_of([(0, 1), (1, 2), (0, 2)], 4, 4))
    case.layer.step.attention.allow_zero_in_degree = True
    assert_same(case.run(dense_recurrence), case.run(naive_recurrence))
