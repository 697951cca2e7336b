from typing import Any

import pytest
from hypothesis import given, settings

from graphut.nn import dense_recurrence
from tests.helpers import assert_same, covering, layout_of, name_of
from tests.nn.cases import MODES, SIGNALLED, Case, build_case, cases_on_any_graph
from tests.nn.naive import naive_recurrence


@pytest.mark.parametrize("row", [*covering(**MODES), *SIGNALLED], ids=name_of)
def test_reference_the_oracle_is_the_definition(row: dict[str, Any]) -> None:
    case = build_case(**row)
    assert_same(case.run(dense_recurrence), case.run(naive_recurrence))


@settings(max_examples=15)
@given(cases_on_any_graph())
def test_reference_the_oracle_is_the_definition_on_any_graph(case: Case) -> None:
    assert_same(case.run(dense_recurrence), case.run(naive_recurrence))


def test_reference_nodes_without_in_edges() -> None:
    case = build_case(graph=layout_of([(0, 1), (1, 2), (0, 2)], 4, 4))
    case.layer.step.attention.allow_zero_in_degree = True
    assert_same(case.run(dense_recurrence), case.run(naive_recurrence))
