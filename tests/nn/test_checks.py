import re

import pytest
from torch import Tensor

from graphut._dgl import dgl
from graphut.attention.checks import check_feat
from graphut.nn import (
    AdaptiveRecurrence,
    HaltingUnit,
)
from graphut.topology import Complete
from tests.helpers import cross_edges, normal, refuses
from tests.nn.cases import build_step, randomised

GRAPH, CROSS = Complete().layout([4]), cross_edges(Complete(), [4], [2])
FEAT, SOURCE = normal(4, 8), normal(2, 6)
COUNT = "of {} nodes must be (4, 8), one row for each node of the graph, as wide as the layer; got "
COUNT += "shape "

WRONG = {
    "too-few": (FEAT[:3], COUNT + "(3, 8)"),
    "too-many": (normal(5, 8), COUNT + "(5, 8)"),
    "flat": (FEAT[:, 0], COUNT + "(4,)"),
    "heads": (normal(4, 2, 4), COUNT + "(4, 2, 4)"),
    "wide": (normal(4, 9), COUNT + "(4, 9)"),
    "single": (FEAT.float(), "{} nodes are torch.float32, but the layer"),
    "integer": (FEAT.long(), "{} nodes are torch.int64"),
    "array": (FEAT.detach().numpy(), "{} nodes must be a tensor, got ndarray; convert"),
    "elsewhere": (FEAT.to("meta"), "are on meta, but the layer is on cpu"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_check_feat_in_each_layer(wrong: str) -> None:
    feat, words = WRONG[wrong]
    step = build_step()
    check_feat(FEAT, "source", 4, 8, step.attention)
    calls = [
        (step.attention, "source", (feat, FEAT)),
        (step.attention, "destination", (FEAT, feat)),
        (AdaptiveRecurrence(step), "source", feat),
    ]
    for layer, side, given in calls:
        refuses(re.escape(words.format(side)), layer, GRAPH, given)


@pytest.mark.parametrize(
    ("source", "words"),
    [(SOURCE[:1], "must be (2, 6)"), (normal(2, 8), "shape (2, 8)"), (SOURCE.float(), "float32")],
)
def test_check_feat_of_the_encoder_output(source: Tensor, words: str) -> None:
    step = build_step(form="decoder")
    layer = AdaptiveRecurrence(step)
    layer(GRAPH, FEAT, cross=(CROSS, SOURCE))
    refuses(re.escape(words), layer, GRAPH, FEAT, cross=(CROSS, source))


def test_steps_and_recurrences_take_one_edge_type_of_a_heterograph() -> None:
    cites = ([0, 1, 2, 3, 0, 3, 2], [0, 1, 2, 3, 1, 1, 0])
    edges = {("paper", "cites", "paper"): cites, ("author", "writes", "paper"): ([0, 1], [0, 3])}
    graph = dgl.heterograph(edges)
    layer = randomised(AdaptiveRecurrence(build_step(), HaltingUnit(8), max_steps=5))
    words = "'author' to 'paper' nodes; a step needs a graph"
    refuses(words, layer, graph["writes"], normal(2, 8))
