from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from graphut import (
    UniversalGraphTransformer,
    UniversalGraphTransformerConfig,
)
from graphut._dgl import dgl
from graphut.models.outputs import GraphPrediction
from graphut.nn import Ponder
from tests.helpers import assert_same
from tests.models.cases import (
    SOURCES,
    TARGETS,
    build_classifier,
    build_language_model,
    build_model,
    build_pointer,
)
from tests.nn.cases import randomised


def run_pairs(**options: Any) -> Any:
    model = build_model(decoder_topology="binary_partition:1&causal", encoder_topology="star")
    return model(model.sentence_graph(SOURCES, TARGETS), **options)


def run_texts(**options: Any) -> Any:
    return build_language_model()(TARGETS, **options)


def run_documents(**options: Any) -> Any:
    return build_classifier()([SOURCES[:2], SOURCES[1:2]], **options)


def run_passages(**options: Any) -> Any:
    return build_pointer()(SOURCES, **options)


def run_graph(**options: Any) -> Any:
    config = UniversalGraphTransformerConfig(
        num_kinds=2, classes=3, d_model=8, num_heads=2, max_steps=5
    )
    graph = dgl.add_self_loop(dgl.graph(([0, 1, 3], [1, 2, 2])))
    model = randomised(UniversalGraphTransformer(config), seed=10).eval()
    return model(graph, torch.tensor([0, 1, 0, 1]), **options)


def ponders_of(output: Any) -> list[Ponder]:
    return [part for part in output if isinstance(part, Ponder)]


RUNS = [run_pairs, run_texts, run_documents, run_passages, run_graph]


@pytest.mark.parametrize("run", RUNS)
def test_outputs_are_the_same_with_attention(run: Callable[..., Any]) -> None:
    plain, looked = run(), run(get_attention=True)
    first = plain[0].detach()
    assert_same([looked[0]], [first])
    for before, after in zip(ponders_of(plain), ponders_of(looked), strict=True):
        assert torch.equal(before.steps, after.steps)
        assert before.attention is before.cross_attention is before.halting is None


def test_repr_of_a_graph_prediction_is_short() -> None:
    found = GraphPrediction(["a"] * 300, torch.ones(300, 3), None, torch.ones(300))
    assert repr(found) == (
        "GraphPrediction(labels=['a', 'a', 'a', 'a', 'a', 'a', ...], probabilities=[300, 3], "
        "values=None, steps=[300])"
    )
