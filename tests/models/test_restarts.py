from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from graphut.models import UniversalGraphTransformer, UniversalGraphTransformerConfig
from graphut.models.config import Restarts
from graphut.models.graph_columns import GraphInput
from graphut.models.graph_inputs import JoinedGraphs
from graphut.models.restarts import run_restarts
from graphut.nn import EventDriven
from graphut.nn.noise import DrawnNoise
from tests.helpers import refuses

THREE = Restarts(restarts=3, restart_noise=1.0, restart_seed=5)
KINDS = [{"answer_at": at} for at in ("node", "edge", "graph")] + [{"answer_kind": "labels"}]


def build(**options: Any) -> UniversalGraphTransformer:
    torch.manual_seed(1)
    shape: dict[str, Any] = {"num_kinds": 2, "classes": 3, "d_model": 8, "d_hidden": 16}
    shape |= {"adaptive": False, "step_signal": "none", "inject_input": True, "quantize": 1}
    shape |= {"evaluation_rule": "event_driven:max_rounds=3"}
    config = UniversalGraphTransformerConfig(**{**shape, **options})
    return UniversalGraphTransformer(config).double().eval()


def graphs() -> list[GraphInput]:
    random = np.random.default_rng(0)
    found = []
    for size in (4, 7, 2, 9, 6):
        node = np.arange(size)
        edges = np.concatenate([[node, node], random.integers(0, size, (2, 2 * size))], 1)
        found.append(GraphInput(edges, random.integers(0, 2, size)))
    return found


def run(model: Any, some: list[GraphInput], restarts: Restarts) -> Any:
    with torch.no_grad():
        return run_restarts(model, JoinedGraphs.join(some), some, restarts)


def copies_of(model: Any, graph: GraphInput, noisy_rounds: int) -> list[Any]:
    """The outputs of the copies of one graph, each run alone."""
    one, rule = JoinedGraphs.join([graph]), model.evaluation_rule
    found = []
    for copy in range(3):
        states = model.encoder.quantize.round(model._first_states(one.nodes))
        for t in range(noisy_rounds if copy else 0):
            if t:
                model.evaluation_rule = EventDriven(max_rounds=1)
                states = model.resume(states, one.layout, one.nodes).ponder.shown
            states = DrawnNoise(1.0, 5 + (t << 32)).add(states, step=copy)
        model.evaluation_rule = rule
        found.append(model.resume(states, one.layout, one.nodes))
    return found


def agrees(model: Any, graph: GraphInput, kept: Tensor, other: Tensor) -> Tensor:
    """Return a mask of equal answers; any of several likeliest edges of `other` may be equal."""
    if model.config.answer_kind == "labels":
        return ((kept > 0) == (other > 0)).all(1)
    if model.config.answer_at != "edge":
        return kept.argmax(1) == other.argmax(1)
    into = [np.flatnonzero(graph.edges[1] == node) for node in range(len(graph.nodes))]
    best = [max(edges, key=lambda edge: (float(kept[edge]), edge)) for edges in into]
    pairs = zip(best, into, strict=True)
    return torch.tensor([bool(other[edge] == other[edges].max()) for edge, edges in pairs])


def likelihood(model: Any, graph: GraphInput, shares: Tensor) -> float:
    """The product of the probabilities of all answers."""
    if model.config.answer_kind == "labels":
        return float(torch.where(shares > 0.5, shares, 1 - shares).prod())
    if model.config.answer_at != "edge":
        return float(shares.amax(1).prod())
    into = [np.flatnonzero(graph.edges[1] == node) for node in range(len(graph.nodes))]
    return float(np.prod([shares[edges].max() for edges in into]))


@pytest.mark.parametrize("keep", ["mean", "surest"])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_restarts_join_the_copies_of_each_graph(kind: dict[str, Any], keep: str) -> None:
    model, rested, kept = build(**kind), set(), set()
    restarts = replace(THREE, restart_rounds=1 if keep == "mean" else 4, restart_keep=keep)
    late = restarts.restart_rounds - 1
    joint = run(model, graphs(), restarts)
    sizes = [len(graph.nodes) for graph in graphs()]
    per_answer = [1] * len(sizes) if kind.get("answer_at") == "graph" else sizes
    parts = [graph.edges.shape[1] for graph in graphs()]
    parts = parts if kind.get("answer_at") == "edge" else per_answer
    shares = {"edge": Tensor.exp, "labels": Tensor.sigmoid}.get(
        next(iter(kind.values())), lambda x: x.softmax(-1)
    )
    rows = zip(graphs(), joint.logits.split(parts), joint.agreement.split(per_answer), strict=True)
    for index, (graph, logits, agreement) in enumerate(rows):
        copies = copies_of(model, graph, restarts.restart_rounds)
        rest = [bool(copy.ponder.quiescent.all()) for copy in copies]
        counted = [copy.logits for copy, r in zip(copies, rest, strict=True) if r or not any(rest)]
        rested.add(sum(rest))
        expected = torch.stack([shares(each) for each in counted]).mean(0)
        if keep == "surest":
            counted = [copy.logits for copy in copies]
            likely = [likelihood(model, graph, shares(each)) for each in counted]
            best = max(range(3), key=likely.__getitem__)
            expected = shares(counted[best])
            kept.add(best)
        torch.testing.assert_close(shares(logits), expected)
        same = torch.stack([agrees(model, graph, logits, each) for each in counted])
        torch.testing.assert_close(agreement, same.float().mean(0))
        alone = run(model, [graph], restarts)
        torch.testing.assert_close(alone.logits, logits)
        assert joint.ponder.quiescent[index] == any(rest)
        rounds = [int(copy.ponder.rounds) for copy in copies]
        assert joint.ponder.rounds[index] == max(rounds[0], *(late + x for x in rounds[1:]))
        steps = sum(copy.ponder.steps for copy in copies) + 2 * late
        assert torch.equal(joint.ponder.steps.split(sizes)[index], steps)
    assert len(rested) > 2 if keep == "mean" else len(kept) > 1


def test_one_copy_and_copies_without_noise_give_the_usual_answers() -> None:
    model = build()
    usual, one = run(model, graphs(), Restarts()), JoinedGraphs.join(graphs())
    plain = model(one.layout, one.nodes)
    assert torch.equal(usual.logits, plain.logits) and usual.agreement is None
    same = run(model, graphs(), Restarts(restarts=2, restart_noise=0.0))
    torch.testing.assert_close(same.logits.softmax(1), plain.logits.softmax(1))
    assert (same.agreement == 1).all() and torch.equal(same.ponder.steps, 2 * plain.ponder.steps)


def test_restarts_depend_on_their_seed_alone() -> None:
    model = build()
    first, again = (run(model, graphs(), THREE) for _ in range(2))
    other = run(model, graphs(), Restarts(restarts=3, restart_noise=1.0, restart_seed=6))
    assert torch.equal(first.logits, again.logits)
    assert not torch.equal(first.logits, other.logits)


@pytest.mark.filterwarnings("ignore:.*cut off before they came to rest")
@pytest.mark.parametrize("at", ["node", "edge", "graph"])
def test_predictions_with_restarts_have_an_agreement(at: str) -> None:
    model = build(answer_at=at)
    found = model.predict(graphs(), THREE)
    agreement = torch.cat([each.agreement for each in found if each.agreement is not None])
    assert torch.equal(agreement, run(model, graphs(), THREE).agreement)
    assert all(each.agreement is None for each in model.predict(graphs()))


def test_restarts_refuse_models_that_they_do_not_fit() -> None:
    final = build(adaptive=True, evaluation_rule="", inject_input=False)
    refuses(r"restarts=3.* needs states that come to rest", run, final, graphs(), THREE)
    values = build(answer_kind="values")
    assert isinstance(values.evaluation_rule, EventDriven)
    refuses("averages the probabilities of classes, not values", run, values, graphs(), THREE)
    refuses("restarts must be at least 1; got 0", Restarts, restarts=0)
