"""Halting rules: when a node halts, and the weight of each of its states in the output."""

from graphut.nn.rules.act import ACT, Threshold
from graphut.nn.rules.base import (
    BatchIndex,
    Decision,
    FixedDepth,
    HaltingRule,
    StepRows,
    parse_rule,
)
from graphut.nn.rules.convergence import Convergence
from graphut.nn.rules.event_driven import EventDriven
from graphut.nn.rules.ponder_net import PonderNet
from graphut.nn.rules.whole_graph import Global

__all__ = [
    "ACT",
    "BatchIndex",
    "Convergence",
    "Decision",
    "EventDriven",
    "FixedDepth",
    "Global",
    "HaltingRule",
    "PonderNet",
    "StepRows",
    "Threshold",
    "parse_rule",
]
