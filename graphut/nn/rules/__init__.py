"""Halting rules: when a node halts, and the weight of each of its states in the output."""

from typing import TYPE_CHECKING

from graphut._lazy import lazy_names
from graphut.nn.rules.base import (
    ACT,
    BatchIndex,
    Decision,
    FixedDepth,
    HaltingRule,
    StepRows,
    parse_rule,
)
from graphut.nn.rules.change import Convergence, EventDriven
from graphut.nn.rules.probability import PonderNet, Threshold

if TYPE_CHECKING:
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

__getattr__, __dir__ = lazy_names(__name__)
