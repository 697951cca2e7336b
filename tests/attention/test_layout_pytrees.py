from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import AdditionalInputs, export
from torch.utils import _pytree as pytree

from graphut.attention import EdgeLayout, edge_attention
from graphut.nn import AdaptiveRecurrence, LayerAsConv
from graphut.topology import Causal
from tests.attention.naive import GRAPHS
from tests.helpers import assert_same, normal, pairs_of
from tests.nn.cases import FEATS, build_step, rows_graph


@pytest.mark.parametrize("graph", GRAPHS)
def test_as_pytree_a_layout_is_put_together_again(graph: str) -> None:
    layout = GRAPHS[graph]
    leaves, spec = pytree.tree_flatten(layout)
    assert pytree.tree_unflatten(leaves, spec) is layout  # with all that it has worked out
    copy = pytree.tree_map_only(Tensor, torch.clone, layout)
    assert copy is not layout and pairs_of(copy) == pairs_of(layout)
    for name in ("num_src", "num_dst", "num_edges", "has_empty_rows", "extra_nodes"):
        assert getattr(copy, name) == getattr(layout, name)
    assert getattr(copy, "is_monotone", None) == getattr(layout, "is_monotone", None)
    text = pytree.treespec_dumps(spec)
    assert pairs_of(pytree.tree_unflatten(leaves, pytree.treespec_loads(text))) == pairs_of(layout)


class Attention(nn.Module):
    def forward(self, layout: EdgeLayout, feat: Tensor) -> Tensor:
        query, key, value = feat.view(-1, 3, 2, FEATS // 2).unbind(1)
        return edge_attention(layout, query, key, value)  # type: ignore[no-any-return]


def modules() -> dict[str, Callable[[], nn.Module]]:
    return {
        "attention": Attention,
        "fixed": lambda: LayerAsConv(AdaptiveRecurrence(build_step(norm="pre"), max_steps=3)),
    }


# A graph to export for, and another to run on.
PAIRS: dict[str, Callable[[], list[EdgeLayout]]] = {
    "intervals": lambda: [Causal().layout(lengths) for lengths in ([4, 3], [2, 5, 4])],
    "rows": lambda: [rows_graph(lengths) for lengths in ([4, 3], [2, 5, 4])],
}


@pytest.mark.parametrize(
    ("name", "graph"), [("attention", "rows"), ("fixed", "intervals"), ("fixed", "rows")]
)
def test_as_pytree_an_exported_program_takes_other_graphs(name: str, graph: str) -> None:
    module = modules()[name]().eval()
    width = 3 * FEATS if name == "attention" else FEATS
    calls = [(x, normal(x.num_src, width).detach()) for x in PAIRS[graph]()]
    others = AdditionalInputs()
    others.add(calls[1])
    program = export(module, calls[0], dynamic_shapes=others).module()
    for layout, feat in calls:
        assert_same([program(layout, feat)], [module(layout, feat)])


def test_as_pytree_an_export_leaves_nothing_behind() -> None:
    """A layout that belongs to the program keeps no tensor without numbers."""
    [layout, _], feat = PAIRS["rows"](), normal(7, FEATS).detach()
    layer: Any = LayerAsConv(AdaptiveRecurrence(build_step(), max_steps=3)).eval()

    class OnOneGraph(nn.Module):
        def forward(self, feat: Tensor) -> Tensor:
            return layer(layout, feat)  # type: ignore[no-any-return]

    program = export(OnOneGraph(), (feat,)).module()
    assert_same([layer(layout, feat)], [layer(PAIRS["rows"]()[0], feat)])
    assert_same([program(feat)], [layer(layout, feat)])
