from typing import Any

import torch

from graphut.experiments.bench.attention_workload import AttentionWorkload

SPECS = ("complete", "causal", "window:1", "window:1|global:0")


def small_call(**changes: Any) -> AttentionWorkload:
    """Return a small workload, in float64 unless `changes` has another dtype."""
    given = {"spec": "causal", "shape": "3x2-7", "dim": 8, "heads": 2, "dtype": torch.float64}
    return AttentionWorkload(**(given | changes))
