from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from graphut import UniversalGraphTransformer, UniversalGraphTransformerConfig
from graphut._dgl import dgl
from graphut.attention import as_layout
from graphut.nn import InputNoise, MessageAggregation, Quantized
from tests.helpers import assert_same, covering, gradients, name_of, normal, refuses
from tests.nn.cases import randomised
from tests.nn.reference import dense_recurrence

NODES = torch.tensor([0, 1, 1, 0, 1, 0, 0])
FEATURES = normal(7, 3)
MODES: dict[str, Any] = {
    "answer_at": ("node", "edge", "graph"),
    "inputs": ("kinds", "features"),
    "halted": ("copied", "frozen", "stale", "running"),
    "norm": ("post", "pre"),
    "adaptive": (True, False),
}
ROWS = covering(**MODES)


def graph() -> Any:
    """Two graphs, of 4 and 3 nodes, with edges in no order."""
    one = dgl.graph(([3, 0, 1, 2, 2, 1], [0, 1, 2, 2, 3, 0]))
    other = dgl.graph(([0, 2, 1], [2, 1, 0]))
    return dgl.batch([one, dgl.add_self_loop(other)])


def build(inputs: str = "kinds", answer_at: str = "node", **options: Any) -> Any:
    sizes = {"num_kinds": 2} if inputs == "kinds" else {"num_feats": 3}
    classes = {} if answer_at == "edge" else {"classes": 3}
    shape = {"d_model": 8, "num_heads": 2, "d_hidden": 12, "max_steps": 5}
    config = UniversalGraphTransformerConfig(
        **{**shape, **sizes, **classes, "answer_at": answer_at, **options}
    )
    model = randomised(UniversalGraphTransformer(config), 10)
    model.encoder.halting.linear.weight.data.mul_(1.5) if config.adaptive else None
    return model.eval()


def inputs_of(model: Any) -> Tensor:
    return FEATURES if model.config.num_feats else NODES


def plain_logits(model: Any, states: Tensor, feats: Tensor | None = None) -> Tensor:
    """The logits, graph by graph, node by node and edge by edge."""
    if model.config.answer_at == "edge":
        source, target = graph().edges()
        keys = model.key(states)[source]
        keys = keys if feats is None else keys + feats @ model.edge.weight.T
        scores = (model.query(states)[target] * keys).sum(1) / 8**0.5
        rows = [scores[target == target[e]].logsumexp(0) for e in range(len(scores))]
        return scores - torch.stack(rows)
    if model.config.answer_at == "graph":
        states = torch.stack([states[:4].mean(0), states[4:].mean(0)])
    return states @ model.output.weight.T + model.output.bias  # type: ignore[no-any-return]


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_graph_transformer_equals_the_dense_recurrence(row: dict[str, Any]) -> None:
    model = build(**row)
    nodes = inputs_of(model)
    if row["inputs"] == "kinds":
        first = model.embedding.weight[nodes] * 8**0.5
    else:
        first = nodes @ model.embedding.weight.T + model.embedding.bias
    states, steps, *_ = dense_recurrence(model.encoder, graph(), first)
    found = model(graph(), nodes)
    assert_same([found.logits], [plain_logits(model, states)])
    assert torch.equal(found.ponder.steps, steps)
    weights = list(model.parameters())
    assert_same(
        gradients([found.logits], weights), gradients([plain_logits(model, states)], weights)
    )


def test_graph_transformer_takes_a_layout_an_edge_list_and_positions() -> None:
    model = build()
    plain = model(graph(), NODES).logits
    assert torch.equal(model(as_layout(graph()), NODES).logits, plain)
    edge_index = torch.stack(graph().edges())
    assert torch.equal(model(edge_index, NODES).logits, plain)
    looked = model(graph(), NODES, get_attention=True)
    assert torch.allclose(looked.logits, plain, rtol=1e-12) and looked.ponder.attention is not None
    places = torch.arange(14).reshape(7, 2)
    assert not torch.allclose(model(graph(), NODES, positions=places).logits, plain)


def test_graph_transformer_counts_an_edge_of_weight_0_as_none() -> None:
    model, weights = build(), torch.ones(graph().num_edges()).double()
    weights[0] = 0.0
    source, target = graph().edges()
    keep = weights > 0
    without = model(torch.stack([source, target])[:, keep], NODES).logits
    assert_same([model(graph(), NODES, edge_weights=weights).logits], [without])


@pytest.mark.parametrize("messages", ["max", "sum", "max+sum"])
@pytest.mark.parametrize(("layer", "edge_feats"), [("attention", 0), ("attention", 2), ("none", 0)])
def test_graph_transformer_has_messages(
    layer: str, messages: str, edge_feats: int, tmp_path: Path
) -> None:
    model = build(layer=layer, messages=messages, halted="frozen", edge_feats=edge_feats)
    feats = normal(graph().num_edges(), edge_feats) if edge_feats else None
    [found] = [part for part in model.modules() if isinstance(part, MessageAggregation)]
    assert found.aggregators == tuple(messages.split("+"))
    assert (found.attention is None) == (layer == "none")
    first = model.embedding.weight[NODES] * 8**0.5
    states, steps, *_ = dense_recurrence(model.encoder, graph(), first, edge_feat=feats)
    out = model(graph(), NODES, edge_feats=feats)
    assert_same([out.logits], [plain_logits(model, states)])
    assert torch.equal(out.ponder.steps, steps)
    model.save_pretrained(tmp_path)
    again = UniversalGraphTransformer.from_pretrained(tmp_path)
    assert torch.equal(again(graph(), NODES, edge_feats=feats).logits, out.logits)


def test_graph_transformer_has_quantised_states_and_random_first_states() -> None:
    later = InputNoise(0.2, "every_step")
    options: dict[str, Any] = {"inject_input": True, "noise": 0.2, "noise_on": "every_step"}
    model = build(quantize=3, quantize_noise=0.1, initial_noise=2.0, **options)
    assert model.encoder.quantize == Quantized(3, 0.1)
    assert [*model.encoder.noise] == [InputNoise(2.0, "first"), later]
    first = build(quantize=3, initial_noise=1.0)
    assert [*first.encoder.noise] == [InputNoise(1.0, "first")]
    plain = build(**options)
    assert plain.encoder.quantize is None and plain.encoder.noise == later
    states = model(graph(), NODES, get_steps=True).steps[-1].states
    assert torch.equal((3 * states).round(), 3 * states)


@pytest.mark.parametrize("layer", ["gat", "gin"])
@pytest.mark.parametrize("adaptive", [True, False])
def test_graph_transformer_has_layers_of_dgl(layer: str, adaptive: bool, tmp_path: Path) -> None:
    model = build(layer=layer, adaptive=adaptive, share_weights=adaptive, halted="frozen")
    kind = {"gat": dgl.nn.GATConv, "gin": dgl.nn.GINConv}[layer]
    convs = [part for part in model.modules() if isinstance(part, kind)]
    assert len(convs) == (1 if adaptive else 5)
    found = model(graph(), NODES)
    pairs = zip(dgl.unbatch(graph()), NODES.split([4, 3]), strict=True)
    assert_same([found.logits], [torch.cat([model(*pair).logits for pair in pairs])])
    assert all(weight.any() for weight in gradients([found.logits], convs[-1].parameters()))
    model.save_pretrained(tmp_path)
    again = UniversalGraphTransformer.from_pretrained(tmp_path)
    assert torch.equal(again(graph(), NODES).logits, found.logits)


def test_graph_transformer_takes_the_mean_of_a_large_graph_in_float32() -> None:
    model = build(answer_at="graph").bfloat16()
    states = normal(4000, 8).bfloat16() + 1
    layout = as_layout(dgl.add_self_loop(dgl.graph(([], []), num_nodes=4000)))
    expected = model.output(states.float().mean(0, keepdim=True).bfloat16())
    assert_same([model.read_out(layout, states)], [expected])


def test_graph_transformer_reads_features_of_the_edges_that_answer() -> None:
    model, feats = build(answer_at="edge", edge_feats=2), normal(graph().num_edges(), 2)
    first = model.embedding.weight[NODES] * 8**0.5
    states, *_ = dense_recurrence(model.encoder, graph(), first, edge_feat=feats)
    logits = model(graph(), NODES, edge_feats=feats).logits
    assert_same([logits], [plain_logits(model, states, feats)])


def test_graph_transformer_answers_at_no_edge() -> None:
    model = build(answer_at="edge")
    assert model(dgl.graph(([], []), num_nodes=0), NODES[:0]).logits.shape == (0,)


@pytest.mark.parametrize("answer_at", ["node", "edge", "graph"])
def test_graph_transformer_resumes_as_its_recurrence_does(answer_at: str) -> None:
    model = build(
        answer_at=answer_at, adaptive=False, evaluation_rule="event_driven:max_rounds=50",
        step_signal="none", inject_input=True, quantize=1,
    )  # fmt: skip
    first, layout, changed = model(graph(), NODES), as_layout(graph()), torch.tensor([1])
    nodes = NODES.index_fill(0, changed, 0)
    found = model.resume(first.ponder, graph(), nodes, changed=changed)
    feat = model._first_states(nodes)
    states, ponder = model.encoder.resume(first.ponder, layout, feat, changed=changed)
    assert_same([found.logits, found.ponder.steps], [plain_logits(model, states), ponder.steps])
    assert 0 < int((found.ponder.steps > 0).sum()) < 7  # the second graph does not compute
    edges_into = torch.tensor([2])
    again = model.resume(found.ponder, graph(), nodes, edges_into=edges_into, get_steps=True)
    assert again.steps[0].nodes.tolist() == again.ponder.frontiers[0].tolist() == [2]
    assert again.ponder.quiescent.all() and torch.equal(again.logits, found.logits)


def test_graph_transformer_normalises_and_drops_features() -> None:
    model = build("features", input_norm=True, input_dropout=0.5).double()
    model.eval()
    model.embedding.bias.data.zero_()
    torch.testing.assert_close(
        model._first_states(100 * FEATURES), model._first_states(FEATURES), atol=1e-4, rtol=1e-3
    )
    model.input_norm.weight.data.fill_(5.0)
    model.reset_parameters()
    assert bool((model.input_norm.weight == 1).all())
    drawn = model.train()._first_states(FEATURES), model._first_states(FEATURES)
    assert not torch.equal(*drawn)
    assert not list(build(input_norm=True).input_norm.parameters())  # kinds have no features


# Refused arguments.

ONES = torch.ones(9).double()


def run(
    nodes: Any = NODES, edge_weights: Any = None, edge_feats: Any = None, **options: Any
) -> Any:
    return build(**options)(graph(), nodes, edge_weights=edge_weights, edge_feats=edge_feats)


def test_graph_transformer_refuses_what_does_not_fit() -> None:
    refuses("kind 2 does not exist; the model has kinds 0 to 1", run, torch.full((7,), 2))
    refuses("7", run, NODES[:5])
    refuses("nodes are torch.float32, but kinds of nodes must be int64", run, NODES.float())
    refuses("nodes must be a tensor, got list", run, NODES.tolist())
    refuses(r"shape \(N, 3\), .* got shape \(7, 2\)", run, FEATURES[:, :2], inputs="features")
    refuses("features of source nodes are torch.fl", run, FEATURES.float(), inputs="features")
    refuses("edge_weights must be a tensor, got list", run, edge_weights=ONES.tolist())
    refuses("edge_feats must be a tensor, got list", run, edge_feats=ONES.tolist())
    refuses("edge_weights must not be negative; got -0.5", run, edge_weights=ONES - 1.5)
    refuses("'attention', but the model has layer='gin'", run, edge_weights=ONES, layer="gin")
    refuses("the model has layer='none'", run, edge_weights=ONES, layer="none", messages="max")
    half_empty = dgl.batch([dgl.graph(([0], [0])), dgl.graph(([], []), num_nodes=0)])
    refuses("graph 1 .* has no nodes to", build(answer_at="graph"), half_empty, NODES[:1])
    refuses(r"input_dropout must be 0.0 where nodes .*; got 0\.5", build, input_dropout=0.5)
