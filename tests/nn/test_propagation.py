"""AdaptivePropagation against PyG's APPNP, and against a separate implementation of AP-GCN."""

from typing import Any

import pytest
import torch
from torch import Tensor

from graphut._dgl import dgl
from graphut.nn import (
    ACT,
    AdaptivePropagation,
    AdaptiveRecurrence,
    EventDriven,
    FixedDepth,
    Global,
    HaltingRule,
    Threshold,
    UniversalTransformerStep,
    from_edge_index,
)
from graphut.nn.aggregation import Aggregation
from tests.helpers import assert_same, gradients, normal, refuses
from tests.nn.reference import dense_recurrence

pyg: Any = pytest.importorskip("torch_geometric.nn")
AP_GCN = ACT(halt_from="output", weighting="ap-gcn")


def graph_of(nodes: int, edges: int) -> Tensor:
    return torch.randint(nodes, (2, edges), generator=torch.Generator().manual_seed(3))


def with_loops(edges: Tensor, nodes: int) -> Tensor:
    """Return the edges with exactly one self-loop at each node, last."""
    return torch.cat([edges[:, edges[0] != edges[1]], torch.arange(nodes).expand(2, -1)], 1)


def matrix(edges: Tensor, nodes: int) -> Tensor:
    """Return the dense symmetric normalisation of a graph with exactly one self-loop a node."""
    source, target = with_loops(edges, nodes)
    ones = torch.ones(len(source)).double()
    adjacency = torch.zeros(nodes, nodes).double().index_put((target, source), ones, True)
    scale = adjacency.sum(1) ** -0.5
    return scale[:, None] * adjacency * scale


def ap_gcn(halt: Any, edges: Tensor, x: Tensor, max_steps: int) -> tuple[Tensor, list[int]]:
    """Compute the output of AP-GCN one node at a time, without halting of the propagation."""
    states, adjacency = [x], matrix(edges, len(x))
    for _ in range(max_steps):
        states.append(adjacency @ states[-1])
    rows, taken = [], []
    for node in range(len(x)):
        spent, total, steps = torch.zeros(()).double(), torch.zeros_like(x[node]), 1
        for t in range(1, max_steps + 1):
            p = halt(states[t][node][None])[0]
            goes_on = bool(spent + p < 0.99)
            steps += goes_on
            spent = spent + p * goes_on
            share = spent if goes_on and steps <= max_steps else 1 - spent
            total = total + share * states[t][node] + (1 - share) * states[t - 1][node]
            if not goes_on:
                break
        rows.append(total / steps)
        taken.append(t)
    return torch.stack(rows), taken


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-7), (torch.float64, 1e-12)])
@pytest.mark.parametrize("weighted", [False, True])
def test_fixed_depth_is_appnp(dtype: torch.dtype, bound: float, weighted: bool) -> None:
    edges, x = graph_of(50, 200), normal(50, 7, dtype=dtype)
    weight = normal(200, seed=1, dtype=dtype).detach().sigmoid() if weighted else None
    wanted = pyg.APPNP(10, 0.1)(x, edges, weight)
    found = AdaptivePropagation(K=10, alpha=0.1)(x, edges, weight)
    assert float((found - wanted).detach().abs().max()) <= 3 * bound  # features of up to 3
    assert_same(gradients([found], [x]), gradients([wanted], [x]), 10 * bound)
    graph = dgl.graph((*edges,), num_nodes=50)
    assert_same([AdaptivePropagation()(graph, x, weight)], [found], bound)


@pytest.mark.parametrize("bias", [-4.0, -1.0, 1.0])
def test_act_with_its_weighting_is_ap_gcn(bias: float) -> None:
    edges, x, options = graph_of(20, 60), normal(20, 3), {"in_channels": 3, "alpha": 0.0}
    layer = AdaptivePropagation(6, rule=AP_GCN, halted="running", bias_init=bias, **options)
    layer = layer.double()
    wanted, steps = ap_gcn(layer.recurrence.halting, edges, x, 6)
    found, inputs = layer(x, edges), [x, *layer.parameters()]
    assert_same([found, *gradients([found], inputs)], [wanted, *gradients([wanted], inputs)])
    assert layer.ponder.steps.tolist() == steps
    assert layer.recurrence.halting is not None


class DenseProduct(Aggregation):
    """One step of the propagation, as a dense product in the place of attention."""

    key_value, node_flops, edge_flops = None, 0, 0

    def __init__(self, adjacency: Tensor, first: Tensor, alpha: float) -> None:
        super().__init__()
        self.adjacency, self.first, self.alpha = adjacency, first, alpha
        self.in_feats, self.out_feats = (first.shape[1],) * 2, first.shape[1]

    def attend(self, _: Any, rows: Tensor, states: Tensor, **options: Any) -> tuple[Tensor, None]:
        return (1 - self.alpha) * self.adjacency @ states + self.alpha * self.first, None


@pytest.mark.parametrize("halted", ["frozen", "running"])
@pytest.mark.parametrize("rule", [AP_GCN, ACT(), Threshold(0.4), FixedDepth()])
def test_a_frontier_equals_masks(rule: HaltingRule, halted: str) -> None:
    learns = {"in_channels": 4} if rule.uses_probability else {}
    options: Any = {"rule": rule, "halted": halted, "bias_init": -1.0, **learns}
    layer, x = AdaptivePropagation(5, 0.2, **options).double(), normal(20, 4)
    edges = graph_of(20, 60)
    dense = DenseProduct(matrix(edges, 20), x, 0.2)
    step = UniversalTransformerStep(dense, None, norm=None, residual=False)  # type: ignore[arg-type]
    masked = AdaptiveRecurrence(
        step, layer.recurrence.halting, rule=rule, max_steps=5, halted=halted, step_signal=None
    )
    wanted, steps, _, cost = dense_recurrence(masked, from_edge_index(edges, 20), x)
    found, inputs = layer(x, edges), [x, *layer.parameters()]
    ponder: Any = layer.ponder
    assert_same([found, ponder.cost], [wanted, cost])
    assert_same(gradients([found], inputs), gradients([wanted], inputs))
    assert torch.equal(ponder.steps, steps)
    assert isinstance(rule, FixedDepth) or halted == "running" or len(steps.unique()) > 1


def test_propagation_drops_other_edges_in_each_step() -> None:
    edges, x = graph_of(200, 2000), normal(200, 1).detach()
    layer = AdaptivePropagation(2, 0.1, dropout=0.5).double()
    torch.manual_seed(0)
    found = layer(x, edges)
    torch.manual_seed(0)
    layout, wanted = from_edge_index(with_loops(edges, 200), 200), x
    for _ in range(2):  # without the edges that are dropped, but with all self-loops
        target, source = layout.destinations(), layout.sources()
        is_kept = (torch.rand(layout.num_edges) >= 0.5) & (source != target)
        wanted = 0.9 * matrix(torch.stack([source, target])[:, is_kept], 200) @ wanted + 0.1 * x
    assert_same([found], [wanted])
    layer.eval()
    assert_same([layer(x, edges)], [pyg.APPNP(2, 0.1)(x, edges)])


def test_weights_of_bools_and_bytes_are_those_of_floats() -> None:
    star, x = torch.stack([torch.arange(300), torch.zeros(300).long()]), normal(300, 2).detach()
    ones, layer = torch.ones(300), AdaptivePropagation(3)
    wanted = layer(x, star, ones)
    for dtype in (torch.bool, torch.uint8, torch.int64, torch.float64):
        assert_same([layer(x, star, ones.to(dtype))], [wanted], 1e-6)


def test_propagation_wakes_batches_and_halts_graphs() -> None:
    edges, x = graph_of(20, 60), normal(20, 2).detach()
    exact = AdaptivePropagation(200, 0.2)(x, edges)
    waking = AdaptivePropagation(200, 0.2, rule=EventDriven(1e-9))
    assert_same([waking(x, edges)], [exact], 1e-6)
    batch = torch.arange(20) // 10
    within = edges % 10 + 10 * (torch.arange(60) % 2)
    layer = AdaptivePropagation(6, in_channels=2, rule=Global(Threshold(0.2))).double()
    layer(from_edge_index(within, 20, batch=batch), x)
    assert all(len(steps.unique()) == 1 for steps in layer.ponder.steps.split(10))


def test_propagation_refuses_what_does_not_fit() -> None:
    layer, x, edges = AdaptivePropagation(), normal(20, 2), graph_of(20, 60)
    refuses("alpha must lie in", AdaptivePropagation, 10, 1.0)
    refuses("give AdaptivePropagation in_channels", AdaptivePropagation, rule=ACT())
    refuses("halted must be 'frozen' or 'running'", AdaptivePropagation, halted="stale")
    refuses(r"edge_weight must be \(60,\)", layer, x, edges, torch.ones(59).double())
    refuses("edge_weight must be a tensor, got list", layer, x, edges, [1.0] * 60)
    refuses("a rule is a HaltingRule such as ACT.., got 'act'", AdaptivePropagation, rule="act")
    refuses(
        "max_steps must be a whole number, at least 1; got 0", AdaptivePropagation, 0, in_channels=2
    )
    narrow = AdaptivePropagation(in_channels=4).double()
    refuses(r"must be \(20, 4\), .* got shape \(20, 2\)", narrow, x, edges)
    refuses("edge_weight must be 0 or more, got -1.0", layer, x, edges, -torch.ones(60).double())
    refuses("needs one set of nodes", layer, from_edge_index(edges % 5, (20, 5)), x)
    assert repr(layer) == "AdaptivePropagation(K=10, alpha=0.1)"
