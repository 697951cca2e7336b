"""Problems and contenders that several tests of benchmarks use."""

from __future__ import annotations

from typing import Any

import torch

from graphut.experiments.bench.workloads import AttentionProblem, Sizes
from graphut.topology import Causal, Complete, Window
from tests.topology.brute import Comb

SIZES = Sizes(3, 2, 7)


TOPOLOGIES = (Complete(), Causal(), Window(1), Comb(2))


def problem(**changes: Any) -> AttentionProblem:
    """A small one, in float64 if nothing else is said."""
    given = {"topology": Causal(), "sizes": SIZES, "dim": 8, "heads": 2, "dtype": torch.float64}
    return AttentionProblem(**(given | changes))
