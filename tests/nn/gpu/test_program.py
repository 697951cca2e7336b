"""Compile the kernels of a program; `test_device_loop.py` compares their results."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_map

pytest.importorskip("triton", reason="needs triton")

from tests.attention.triton.interpreter import INTERPRET, skip_unless_kernels_run

if not INTERPRET:
    pytest.skip("the kernels are compiled here: see the tests marked gpu", allow_module_level=True)

import triton

from graphut.attention.triton.inputs import Launch
from graphut.nn import (
    AdaptiveRecurrence,
    EventDriven,
    HaltingUnit,
    MultiHeadAttention,
    PositionwiseTransition,
    Quantized,
    UniversalTransformerStep,
)
from graphut.nn.gpu.async_checks import NO_ERROR, AsyncFiniteChecks
from graphut.nn.gpu.program import Program
from graphut.nn.gpu.waking import WakingProgram
from graphut.topology import Complete, Patch
from tests.attention.triton.compile_for_hopper import Hopper
from tests.gpu_stand_in import compiled_kernel, gpu_stand_in

SHARED = 112 * 1024  # bytes, so that two programs fit in a multiprocessor of an H100
REGISTERS = 255  # the most that a thread can have
# Bytes of a thread; the gradients of attention in float32 need more registers than there are.
SPILLED = {"attention_source": 512, "attention_query": 256, "finish_backward": 16}


def resources(kernel: Any, folder: Path) -> tuple[int, int]:
    """Return the registers and the spilled bytes of a thread, as the assembler reports them."""
    source = folder / "kernel.ptx"
    source.write_text(kernel.asm["ptx"])
    [target] = re.findall(r"\.target (\w+)", kernel.asm["ptx"])
    assembler = Path(triton.__file__).parent / "backends/nvidia/bin/ptxas"
    command = [assembler, "-v", "--gpu-name", target, source, "-o", folder / "kernel.cubin"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    [registers], [spilled] = (
        re.findall(pattern, said) for pattern in (r"Used (\d+) reg", r"(\d+) bytes spill stores")
    )
    return int(registers), int(spilled)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, tuple[str, Any]]:
    """The name and the compiled form of each kernel, which is launched only to be compiled."""
    skip_unless_kernels_run()
    driver = triton.runtime.driver
    if not hasattr(driver, "_active"):
        pytest.skip("needs Triton 3.4 to compile kernels beside interpreted ones")
    monkeypatch.setattr(driver, "_active", Hopper())
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    found: dict[str, tuple[str, Any]] = {}

    def compile_only(launch: Launch) -> None:
        arguments = tree_map(lambda x: getattr(x, "numbers", x), launch.arguments)
        kernel = compiled_kernel(launch.kernel)
        compiled = kernel.run(grid=launch.grid, warmup=True, **arguments)
        found[compiled.hash] = launch.kernel.__name__, compiled

    monkeypatch.setattr(Launch, "run", compile_only)
    return found


def check_limits(made: dict[str, tuple[str, Any]], folder: Path) -> None:
    """Assert that all kernels fit in the device."""
    for name, kernel in made.values():
        registers, spilled = resources(kernel, folder)
        limit = SPILLED.get(name, 0)
        assert registers <= REGISTERS and spilled <= limit, f"{name}: {registers}, {spilled}"
        assert kernel.metadata.shared <= SHARED, f"{name}: {kernel.metadata.shared}"


@pytest.mark.parametrize(
    ("width", "dtype", "norm", "drop"),
    [
        (128, torch.bfloat16, "post", 0.0),
        pytest.param(512, torch.bfloat16, "post", 0.0, marks=pytest.mark.full),
        pytest.param(512, torch.bfloat16, "pre", 0.1, marks=pytest.mark.full),
        pytest.param(128, torch.float32, "pre", 0.1, marks=pytest.mark.full),
        pytest.param(512, torch.float32, "post", 0.0, marks=pytest.mark.full),
    ],
    ids=str,
)
def test_kernels_compile_within_limits(
    width: int,
    dtype: torch.dtype,
    norm: str,
    drop: float,
    made: dict[str, tuple[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(AsyncFiniteChecks, "close", lambda _: None)  # nothing has been computed
    transition = PositionwiseTransition(width, 4 * width, activation=nn.GELU(), dropout=drop)
    attention = MultiHeadAttention(width, 8, attn_drop=drop)
    step = UniversalTransformerStep(attention, transition, norm=norm, dropout=drop)
    layer = AdaptiveRecurrence(step, HaltingUnit(width), max_steps=2).to(dtype)
    feat, graph = torch.zeros(3, width, dtype=dtype), Complete().layout([2, 1])
    with gpu_stand_in():
        feat, positions = feat.to("cuda").requires_grad_(), torch.tensor([1, 2, 1]).to("cuda")
        out, ponder = layer.to("cuda")(graph, feat, positions=positions)
        (out.float().sum() + ponder.cost).backward()
    assert {"advance", "product", "finish", "rows_backward", "weight_gradient"} <= {
        name for name, _ in made.values()
    }
    check_limits(made, tmp_path)


@pytest.mark.parametrize(
    ("width", "heads", "dtype", "norm"),
    [
        (64, 8, torch.float32, "post"),
        pytest.param(512, 8, torch.float32, "pre", marks=pytest.mark.full),
        pytest.param(2048, 16, torch.bfloat16, "post", marks=pytest.mark.full),
    ],
    ids=str,
)
def test_kernels_of_waking_compile_within_limits(
    width: int,
    heads: int,
    dtype: torch.dtype,
    norm: str,
    made: dict[str, tuple[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(
        WakingProgram, "run", lambda _, replay, __: (replay.run() or [], 0, NO_ERROR)
    )
    monkeypatch.setattr(Program, "_update", WakingProgram._attend)  # the test above has the others
    step = UniversalTransformerStep(
        MultiHeadAttention(width, heads), PositionwiseTransition(width, width), norm=norm
    )
    layer = AdaptiveRecurrence(step, rule=EventDriven(), step_signal=None, quantize=Quantized(2))
    with gpu_stand_in(), torch.no_grad():
        layer.to("cuda", dtype)(Patch(3, 1).layout([9]), torch.zeros(9, width, dtype=dtype).cuda())
    assert {name for name, _ in made.values()} == {"count", "advance", "attend", "settle"}
    check_limits(made, tmp_path)
