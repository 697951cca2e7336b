from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import gumbel_softmax

from graphut.attention import EdgeLayout
from graphut.attention.layout import layout_from_edges
from graphut.nn import RegisterMessages, UniversalTransformerStep
from graphut.nn.aggregation import edge_list
from tests.helpers import assert_same, gradients, normal, refuses

KEYS: dict[str, Callable[[Any, Any], Any]] = {
    "weight": lambda r, w: w,
    "register": lambda r, w: r,
    "sum": lambda r, w: r + w,
    "max": max,
}


def random_graph(seed: int, nodes: int = 9) -> tuple[EdgeLayout, Tensor]:
    """Return edges with self-loops, in random order, and weights of which some are equal."""
    random = np.random.default_rng(seed)
    source, target = random.integers(0, nodes, (2, 3 * nodes))
    keep = source != target
    ends = np.concatenate([[source[keep], target[keep]], np.tile(np.arange(nodes), (2, 1))], 1)
    ends = torch.from_numpy(random.permutation(ends, axis=1))
    weight = torch.from_numpy(random.integers(1, 9, (ends.shape[1], 1)) / 8.0)
    return layout_from_edges(*ends, num_src=nodes, num_dst=nodes), weight


def plain_step(
    layout: EdgeLayout, states: Tensor, weight: Tensor, operation: str, smallest: bool
) -> tuple[Tensor, list[int]]:
    """Return new states and pointers, by a loop over the in-edges of each node."""
    row, source, edge = (part.tolist() for part in layout.in_edges())
    new, pointers = [], []
    for node, state in enumerate(states.tolist()):
        keys = []
        for j, e in [(j, e) for i, j, e in zip(row, source, edge, strict=True) if i == node]:
            register, held, _ = states[j].tolist()
            if j == node and state[2] > 0:
                keys.append((0.0, j))
            elif j != node and held:
                keys.append((KEYS[operation](register, weight[e].item()), j))
        best = min(
            keys, key=lambda pair: (pair[0] if smallest else -pair[0], pair[1]), default=None
        )
        new.append([0.0 if best is None else best[0], float(best is not None), state[2]])
        pointers.append(-1 if best is None else best[1])
    return torch.tensor(new, dtype=torch.double), pointers


@pytest.mark.parametrize("smallest", [True, False])
@pytest.mark.parametrize("operation", KEYS)
def test_registers_are_the_best_keys_of_a_plain_loop(operation: str, smallest: bool) -> None:
    messages = RegisterMessages().eval()
    messages.set_operation(operation, smallest=smallest)
    for seed in range(10):
        layout, weight = random_graph(seed)
        states = messages.first_states(torch.arange(9) % 4 == 1)
        for _ in range(4):
            expected, pointers = plain_step(layout, states, weight, operation, smallest)
            best = messages.edge_logits(layout, states, weight) == 0
            source, target = edge_list(layout)
            found = dict(zip(target[best].tolist(), source[best].tolist(), strict=True))
            assert [found.get(node, -1) for node in range(9)] == pointers
            new = messages(layout, states, edge_feat=weight)
            assert torch.equal(new[:, :2], expected[:, :2])
            assert torch.equal(new[:, 2] > 0, expected[:, 2] > 0)
            some = torch.tensor([1, 5, 8])
            rows = messages(layout, states, frontier=some, edge_feat=weight)
            assert torch.equal(rows, new[some])
            states = new


def plain_training_step(
    messages: RegisterMessages, layout: EdgeLayout, states: Tensor, weight: Tensor
) -> Tensor:
    """Return the new states in training, by dense sums over all nodes and parallel edges."""
    choice = gumbel_softmax(messages.operation, hard=True)
    row, source, edge = layout.in_edges()
    rows = []
    for node in range(layout.num_dst):
        score, keys, held = [], [], []
        for j, e in [(j, e) for i, j, e in zip(row, source, edge, strict=True) if i == node]:
            r, h, w = states[j, 0], states[j, 1], weight[e, 0]
            key = torch.stack([w, r, r + w, torch.maximum(r, w)]) @ choice
            if j == node:
                key, h = torch.zeros_like(key), (states[node, 2] > 0).double()
            own, t = states[node, 1], messages.table
            entry = (1 - h) * ((1 - own) * t[0, 0] + own * t[0, 1])
            entry = entry + h * ((1 - own) * t[1, 0] + own * t[1, 1])
            score.append(10 * messages.sign * key + entry)
            keys.append(key)
            held.append(h)
        share = torch.stack(score).softmax(0) * torch.stack(held)
        kept = states[node, 2].sign() / 4
        rows.append(torch.stack([(share * torch.stack(keys)).sum(), share.sum(), kept]))
    return torch.stack(rows)


@pytest.mark.parametrize("seed", range(4))
def test_registers_in_training_have_the_gradients_of_their_formula(seed: int) -> None:
    messages = RegisterMessages().train()
    for index, parameter in enumerate(messages.parameters()):
        parameter.data = normal(*parameter.shape, seed=seed + index).detach()
    layout, weight = random_graph(seed)
    weight.requires_grad_()
    states = torch.rand(9, 3, dtype=torch.double).mul_(2).sub_(torch.tensor([0.0, 0.0, 1.0]))
    states[:, 1].div_(2)
    states.requires_grad_()
    inputs, results = [states, weight, *messages.parameters()], []
    for step in (messages, None):
        torch.manual_seed(seed)
        if step is None:
            out = plain_training_step(messages, layout, states, weight)
        else:
            out = step(layout, states, edge_feat=weight)
        results.append([out, *gradients([out[:, :2]], inputs)])
    assert_same(*results)


def test_registers_have_errors_that_say_what_to_do() -> None:
    messages = RegisterMessages()
    loose = layout_from_edges(torch.tensor([0, 1]), torch.tensor([1, 1]), num_src=2, num_dst=2)
    states = messages.first_states(torch.tensor([True, False]))
    refuses("need a self-loop at each node: add it", messages, loose, states)
    layout, weight = random_graph(0)
    states = messages.first_states(torch.arange(9) == 0)
    with pytest.raises(ValueError, match=r"edge_feat must have shape \(\d+, 1\) .*got \(3, 1\)"):
        messages(layout, states, edge_feat=weight[:3])
    refuses(r"edge_feat\[\d+\] is inf", messages, layout, states, edge_feat=weight * torch.inf)
    refuses(r"float32, but the layer is torch\.float64", messages, layout, states.float())
    refuses(r"must be one of .*'sum'.*got 'mean'", messages.set_operation, "mean", smallest=True)
    with pytest.raises(TypeError, match=r"bool tensor \(N,\), True at each start; got torch.int64"):
        messages.first_states(torch.tensor([0, 2]))
    with pytest.raises(ValueError, match=r"norm=None, residual=False in its step; got norm='post'"):
        UniversalTransformerStep(messages, None)
