"""Compile the kernels; `test_fused_act.py` compares their results."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

pytest.importorskip("triton", reason="needs triton")

from tests.attention.triton.interpreter import INTERPRET

if not INTERPRET:
    pytest.skip("the kernels are compiled here: see the tests marked gpu", allow_module_level=True)

from graphut.nn import ACT, HaltingUnit
from graphut.nn.gpu.async_checks import AsyncFiniteChecks
from graphut.nn.gpu.fused_act import FusedRows
from tests.gpu_stand_in import gpu_stand_in


def test_act_kernels_compile_for_a_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    unit = HaltingUnit(64, gain=0.0, bias_init=-3.0)
    with gpu_stand_in(compiles=True) as gpu:
        feat, encodings = (torch.ones(4, 64).to("cuda").requires_grad_() for _ in range(2))
        checks = AsyncFiniteChecks(unit, 4, 3)
        frontier = FusedRows(feat, encodings, 3, checks, ACT(), unit.to("cuda"), 2)
        for step in (1, 2):
            frontier.end_step(frontier.active(), frontier.active() + frontier.last().sum(), step)
        out, _, _, cost = frontier.result()
        (out.sum() + cost.sum()).backward()
    launched = {name: len(made) for name, made in gpu.compiled.items()}
    assert launched == {"act_decide": 2, "act_compact": 1, "act_backward": 2}
    assert all(kernel.asm["cubin"] for made in gpu.compiled.values() for kernel in made)
