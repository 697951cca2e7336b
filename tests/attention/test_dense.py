import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from graphut.attention import EdgeLayout, edge_attention
from tests.attention.naive import GRAPHS, OPTIONS, definition, inputs
from tests.helpers import Pairs, assert_same, gradients, layout_of, multigraphs


def check_against_loops(layout: EdgeLayout, options: str) -> None:
    tensors = inputs(layout)
    given = OPTIONS[options](layout.num_edges)
    always = {"get_attention": True, "allow_zero_in_degree": True, "backend": "dense"}
    found = edge_attention(layout, *tensors, **{**given, **always})
    expected = definition(layout, *tensors, given)
    leaves = [*tensors, *(x for x in given.values() if isinstance(x, Tensor))]
    assert_same([*found, *gradients(found, leaves)], [*expected, *gradients(expected, leaves)])


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("graph", GRAPHS)
def test_dense_attention_is_the_definition(graph: str, options: str) -> None:
    check_against_loops(GRAPHS[graph], options)


@given(multigraphs(), st.sampled_from([*OPTIONS]))
def test_dense_attention_is_the_definition_on_any_graph(
    graph: tuple[Pairs, int, int], options: str
) -> None:
    check_against_loops(layout_of(*graph), options)
