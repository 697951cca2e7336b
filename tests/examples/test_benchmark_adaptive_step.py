from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch

EXAMPLE = Path(__file__).parents[2] / "examples" / "benchmark_adaptive_step.py"


@pytest.mark.parametrize("causal", [False, True])
def test_the_two_models_agree_before_they_are_timed(causal: bool) -> None:
    benchmark = runpy.run_path(str(EXAMPLE))
    row = benchmark["compare"]("64x10-60", causal, 16, 1)
    assert float(row.split("|")[-2]) < 1e-5  # and it stops if they do not


def test_the_frontiers_have_the_sizes_of_the_schedule() -> None:
    benchmark = runpy.run_path(str(EXAMPLE))
    depth = benchmark["depths"](1000, torch.Generator().manual_seed(0))
    sizes = [int((depth >= step).sum()) for step in range(1, 9)]
    assert sizes == [1000, 900, 700, 500, 300, 200, 100, 50]
