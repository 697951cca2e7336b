from __future__ import annotations

import torch

from graphut.nn.frontier import HaltedOutputs
from graphut.nn.packed_rows import HaltSplit


def test_halted_outputs_are_put_into_node_order() -> None:
    outputs = HaltedOutputs()
    out, remainder, cost = torch.tensor([[0.0], [1.0], [2.0]]), torch.zeros(3), torch.ones(3)
    split = HaltSplit(torch.tensor([1]), torch.tensor([1]), torch.tensor([0, 2]))
    outputs.add(split, out, remainder, cost, 1)
    outputs.add(HaltSplit(None, None, None), out, remainder, cost, 2)  # no node halts
    last = HaltSplit(torch.tensor([2, 0]), None, None)
    outputs.add(last, torch.tensor([[20.0], [10.0]]), torch.tensor([0.2, 0.1]), torch.ones(2), 3)
    states, steps, left, _ = outputs.in_order(3, 3)
    assert states.flatten().tolist() == [10.0, 1.0, 20.0] and steps.tolist() == [3, 1, 3]
    torch.testing.assert_close(left, torch.tensor([0.1, 0.0, 0.2]))
    assert len(outputs.in_order(3, 2)[0]) == 2
