import torch
from hypothesis import given
from torch import Tensor

from graphut.attention import EdgeLayout, layout_from_edges
from graphut.nn.aggregation import neighbor_sum
from tests.helpers import Pairs, assert_same, gradients, layout_of, multigraphs, normal


def dense(layout: EdgeLayout, feat: Tensor, weight: Tensor | None = None) -> Tensor:
    """Compute `neighbor_sum` with a dense matrix; weights are in canonical order."""
    ends = layout.in_edges()[:2]
    weight = torch.ones(layout.num_edges).to(feat) if weight is None else weight
    empty = feat.new_zeros(layout.num_dst, layout.num_src)
    return empty.index_put(ends, weight, accumulate=True) @ feat


@given(multigraphs())
def test_neighbor_sum_is_a_product_with_the_adjacency_matrix(graph: tuple[Pairs, int, int]) -> None:
    pairs, num_src, num_dst = graph
    layout, feat = layout_of(pairs, num_src, num_dst), normal(num_src, 3)
    weight, frontier = normal(len(pairs), seed=1), torch.arange(0, num_dst, 2)
    for weights in ([], [weight]):
        for rows in (None, frontier):
            out = neighbor_sum(layout, feat, *weights, frontier=rows)
            part = dense(layout, feat, *weights)[slice(None) if rows is None else rows]
            inputs = [feat, *weights]
            assert_same([out, *gradients([out], inputs)], [part, *gradients([part], inputs)])


def test_neighbor_sum_is_differentiable_twice_and_widens() -> None:
    ends = torch.tensor([0, 1, 2, 2]), torch.tensor([1, 1, 0, 2])
    layout = layout_from_edges(*ends, num_src=3, num_dst=3)
    inputs = [normal(3, 2), normal(4, seed=1)]
    assert torch.autograd.gradgradcheck(lambda x, w: neighbor_sum(layout, x, w), inputs)
    assert neighbor_sum(layout, torch.ones(3, 2).bfloat16()).dtype == torch.float32
