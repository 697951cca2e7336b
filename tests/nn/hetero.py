"""A graph of authors and papers, and a recurrence over both."""

from typing import Any

import torch

from graphut.nn import AdaptiveRecurrence, HeteroAdaptiveConv
from tests.helpers import normal

WRITES, WRITTEN, CITES = ("a", "writes", "p"), ("p", "by", "a"), ("p", "cites", "p")
METADATA = (["a", "p"], [WRITES, WRITTEN, CITES])
X = {"a": normal(3, 4), "p": normal(5, 6, seed=1)}
EDGES = {
    WRITES: torch.tensor([[0, 1, 1, 2], [0, 0, 2, 3]]),
    WRITTEN: torch.tensor([[0, 0, 2, 3], [0, 1, 1, 2]]),
    CITES: torch.tensor([[4, 1, 0, 0], [0, 0, 3, 3]]),
}


def build(metadata: Any = METADATA, sizes: Any = None, **options: Any) -> HeteroAdaptiveConv:
    torch.manual_seed(0)
    sizes = sizes or {"a": 4, "p": 6}
    # The step of the paper, which `plain` computes in `test_hetero_conv.py`.
    paper: Any = {"norm": "layer", "feed_forward": True, "activation": torch.nn.Identity()}
    paper |= {"halted": "frozen", "halting_bias": -1.0}
    options = {"heads": 2, "max_steps": 5, **paper, **options}
    conv = HeteroAdaptiveConv(sizes, 8, metadata, **options).double()
    for name, weight in conv.named_parameters():
        if "bias" in name or "halting" in name:
            torch.nn.init.normal_(weight, std=0.5)
    return conv


def with_recurrence(conv: HeteroAdaptiveConv, **options: Any) -> HeteroAdaptiveConv:
    """Give the convolution another recurrence of the same step."""
    options = {"step_signal": None, "position_signal": None, "max_steps": 5} | options
    conv.recurrence = AdaptiveRecurrence(conv.recurrence.step, **options).double()
    return conv
