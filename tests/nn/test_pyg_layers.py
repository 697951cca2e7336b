from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.helpers import assert_same, gradients, normal
from tests.nn.cases import randomised

pyg = pytest.importorskip("torch_geometric.nn")

from torch_geometric import EdgeIndex  # noqa: E402
from torch_geometric.data import HeteroData  # noqa: E402
from torch_geometric.explain import Explainer, GNNExplainer  # noqa: E402

from graphut.nn import LayerAsConv, MultiHeadAttention  # noqa: E402
from graphut.nn.pyg_layers import TransformerConv  # noqa: E402

EDGES = torch.tensor([[3, 0, 0, 2, 1, 3, 0, 1], [0, 0, 1, 1, 2, 1, 1, 0]])  # one of them twice


def both(*args: Any, **options: Any) -> tuple[TransformerConv, nn.Module]:
    """Return our layer and PyG's, with the same parameters."""
    mine = randomised(TransformerConv(*args, **options))
    other = pyg.TransformerConv(*args, **options).double()
    other.load_state_dict(mine.state_dict())
    return mine, other


def compare(layers: tuple[nn.Module, nn.Module], *args: Any, **options: Any) -> None:
    """Compare outputs, attention weights and gradients of two layers."""
    given = [*args, *(args[0] if isinstance(args[0], tuple) else ())]
    leaves = [x for x in given if isinstance(x, Tensor) and x.requires_grad]
    results = []
    for layer in layers:
        found = layer(*args, **options)
        _, (_, weights) = layer(*args, return_attention_weights=True, **options)
        results.append([found, weights, *gradients([found], [*leaves, *layer.parameters()])])
    assert_same(*results, 1e-9)  # PyG adds 1e-16 to the sum of exponentials


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"heads": 3, "concat": False, "bias": False},
        {"heads": 2, "edge_dim": 5, "beta": True},
        {"heads": 2, "edge_dim": 5, "concat": False, "root_weight": False},
    ],
    ids=str,
)
def test_transformer_conv_equals_pygs(options: dict[str, Any]) -> None:
    edge_attr = normal(8, 5, seed=1) if "edge_dim" in options else None
    compare(both(6, 4, **options), normal(5, 6), EDGES, edge_attr)  # nodes 3 and 4 have no in-edge
    pair = (normal(4, 6), normal(3, 2, seed=2))
    compare(both((6, 2), 4, **options), pair, EDGES, edge_attr)


def test_transformer_conv_accepts_edge_index_objects_and_hooks_on_its_edge_map() -> None:
    (mine, other), x = both(6, 4, heads=2, edge_dim=5), normal(4, 6)
    edges, edge_attr = EdgeIndex(EDGES, sparse_size=(4, 4)), normal(8, 5, seed=1)
    expected = other(x, EDGES, edge_attr)
    assert_same([mine(x, edges, edge_attr)], [expected], 1e-9)
    mine.lin_edge.register_forward_hook(lambda module, args, out: 2 * out)
    assert_same([mine(x, edges, edge_attr / 2)], [expected], 1e-9)


@pytest.mark.parametrize(
    "options",
    [{}, {"aggr": "max"}, {"flow": "target_to_source"}],
    ids=str,
)
def test_transformer_conv_calls_pygs_propagation_for_the_rest(options: dict[str, Any]) -> None:
    (mine, other), x = both(6, 4, **options), normal(4, 6)
    edges = EDGES if options else torch.zeros(4, 4).index_put((*EDGES[:, 2:6],), torch.ones(()))
    edges = edges if options else edges.to_sparse()  # a sparse matrix
    assert_same([mine(x, edges)], [other(x, edges)])


def test_transformer_conv_calls_hooks_on_messages() -> None:
    layers, x = both(6, 4, heads=2), normal(4, 6)
    plain = layers[0](x, EDGES)
    for layer in layers:
        layer.register_message_forward_hook(lambda module, args, out: out / 2)
    assert_same([layers[0](x, EDGES)], [layers[1](x, EDGES)])
    assert not torch.allclose(layers[0](x, EDGES), plain)


def test_transformer_conv_drops_weights_in_training_only() -> None:
    layer, x = TransformerConv(6, 4, heads=2, dropout=0.5), torch.randn(4, 6)
    assert not torch.equal(layer(x, EDGES), layer(x, EDGES))
    layer.eval()
    assert torch.equal(layer(x, EDGES), layer(x, EDGES))


class Model(nn.Module):
    def __init__(self, conv: type, edge_dim: int | None = None) -> None:
        super().__init__()
        self.first = conv((-1, -1), 4, heads=2, edge_dim=edge_dim)
        self.second = conv((-1, -1), 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.second(self.first(x, edge_index).relu(), edge_index)


def hetero_data() -> HeteroData:
    data = HeteroData()
    data["a"].x, data["b"].x = torch.randn(4, 6), torch.randn(3, 5)
    for ends in (("a", "to", "b"), ("b", "to", "a"), ("a", "to", "a")):
        many = torch.tensor([data[ends[0]].num_nodes, data[ends[2]].num_nodes])
        data[ends].edge_index = (torch.rand(2, 9) * many[:, None]).long()
    return data


def test_transformer_conv_in_to_hetero() -> None:
    torch.manual_seed(0)
    data, models = hetero_data(), []
    for conv in (TransformerConv, pyg.TransformerConv):
        models.append(pyg.to_hetero(Model(conv), data.metadata()))
        models[-1](data.x_dict, data.edge_index_dict)  # initializes lazy layers
    models[1].load_state_dict(models[0].state_dict())
    found, expected = (model(data.x_dict, data.edge_index_dict) for model in models)
    assert_same(list(found.values()), list(expected.values()), 1e-5)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_transformer_conv_in_jit_trace_takes_other_graphs() -> None:
    layer, layout = randomised(TransformerConv(8, 5, heads=2)).eval(), EDGES[:, :5]
    traced = torch.jit.trace(layer, (normal(4, 8), EDGES))
    feat = normal(6, 8, seed=1)
    assert_same([traced(feat, layout)], [layer(feat, layout)])
    with pytest.raises(RuntimeError, match=r"cannot record edge_attention: use torch\.compile"):
        torch.jit.trace(LayerAsConv(MultiHeadAttention(8, 2)), (torch.zeros(4, 8), EDGES))


def explainer_of(model: nn.Module, algorithm: Any) -> Explainer:
    return Explainer(
        model,
        algorithm,
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type="object",
        model_config={"mode": "regression", "task_level": "node", "return_type": "raw"},
    )


def test_transformer_conv_with_explainer() -> None:
    results = []
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    for conv in (TransformerConv, pyg.TransformerConv):
        torch.manual_seed(0)
        model = Model(conv)
        model(x, EDGES)
        explainer = explainer_of(model, GNNExplainer(epochs=3))
        results.append(explainer(x, EDGES))
        assert model.first.explain is False or model.first.explain is None
    assert results[0].edge_mask.any()
    assert_same([results[0].edge_mask], [results[1].edge_mask], 1e-4)
