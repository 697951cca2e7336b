"""Compile the Triton kernels for several GPUs, none of which is needed, and check their resources.

    python -m tests.compile_kernels [--full] [ARCHITECTURE...]

It compiles with the Triton that Python finds, for sm_80, sm_89, sm_90 and sm_100 unless others are
given, and fails if a kernel needs more shared memory than there is, or keeps much outside of
registers. `--full` adds many sizes and dtypes. `.ci/kernels` runs it with several versions of
Triton.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # before Triton is imported, and not where tests import this file
    os.environ["TRITON_INTERPRET"] = "0"  # tests would interpret the kernels
    os.environ["GRAPHUT_GPU"] = "launches"  # no CUDA graph can be captured

import pytest
import torch
import triton
from torch import nn
from torch.utils._pytree import tree_map
from triton.backends.compiler import GPUTarget

from graphut.attention.triton.launches import Launch
from graphut.nn import (
    AdaptiveRecurrence,
    HaltingUnit,
    MultiHeadAttention,
    PositionwiseTransition,
    UniversalTransformerStep,
)
from graphut.nn.gpu.async_checks import AsyncFiniteChecks
from graphut.topology import Complete
from tests.attention.naive import hubs
from tests.attention.triton.cases import attend
from tests.gpu_stand_in import gpu_stand_in

SHARED = {80: 163, 89: 99, 90: 227, 100: 227}  # KiB of a program, by architecture
# Bytes of a thread that are spilled, by architecture: gradients of attention with wide heads need
# more registers than there are. Other kernels may spill `FEW`.
FEW = 32
SPILLED = {
    80: {"attention_source": 1024, "attention_query": 320, "attention_forward": 80},
    89: {"attention_source": 1024, "attention_query": 272},
    90: {"attention_source": 448, "attention_query": 272, "attention_forward": 40},
    100: {"attention_source": 640, "attention_query": 256},
}
HEADS = 8


class Driver:
    """As much of Triton's driver as compiling needs."""

    def __init__(self, architecture: int) -> None:
        self._architecture = architecture

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self._architecture, 32)

    def get_current_device(self) -> int:
        return self._architecture  # Triton caches kernels by device

    def get_current_stream(self, device: int) -> int:
        return 0


def attention(dtype: torch.dtype, width: int, *, by_edge: bool = False) -> None:
    """Attend in both passes, over intervals and over rows with many edges."""
    for layout in (Complete().layout([70, 3]), hubs(40, 40, 300)):
        rows = (layout.num_dst, layout.num_src, layout.num_src)
        tensors = [torch.zeros(n, HEADS, width, dtype=dtype, requires_grad=True) for n in rows]
        options: dict[str, Any] = {}
        if by_edge:
            bias = torch.zeros(layout.num_edges, HEADS, requires_grad=True)
            frontier = torch.arange(layout.num_dst)
            options = {"edge_bias": bias, "dropout": 0.5, "seed": 3, "frontier": frontier}
        attend(layout, *tensors, scale=0.125, **options).sum().backward()


def halting(
    dtype: torch.dtype, width: int, *, norm: str = "post", drop: float = 0.0, autocast: bool = False
) -> None:
    """Run both passes of a program whose nodes halt."""
    # The context manager of torch does nothing without a GPU.
    torch.set_autocast_dtype("cuda", torch.bfloat16)
    torch.set_autocast_enabled("cuda", autocast)
    transition = PositionwiseTransition(width, 4 * width, activation=nn.GELU(), dropout=drop)
    layer = MultiHeadAttention(width, HEADS, attn_drop=drop)
    step = UniversalTransformerStep(layer, transition, norm=norm, dropout=drop)
    recurrence = AdaptiveRecurrence(step, HaltingUnit(width), max_steps=2).to("cuda", dtype)
    feat = torch.zeros(3, width, dtype=dtype).cuda().requires_grad_()
    graph, positions = Complete().layout([2, 1]), torch.tensor([1, 2, 1]).cuda()
    out, ponder = recurrence(graph, feat, positions=positions)
    torch.set_autocast_enabled("cuda", False)
    (out.float().sum() + ponder.cost).backward()


def cases(full: bool) -> Iterator[Callable[[], None]]:
    """Yield functions that launch each kernel, in many forms if `full`."""
    half = torch.bfloat16
    yield partial(halting, torch.float32, 512, drop=0.1, autocast=True)
    yield partial(attention, half, 64, by_edge=True)
    if full:
        for dtype, autocast in ((half, False), (torch.float32, False), (torch.float32, True)):
            for width, norm, drop in ((128, "post", 0.0), (512, "pre", 0.1), (512, "post", 0.0)):
                yield partial(halting, dtype, width, norm=norm, drop=drop, autocast=autocast)
        for dtype in (half, torch.float32):  # float16 needs what bfloat16 needs
            for width in (16, 32, 64, 128, 256, 512):
                for by_edge in (False, True):
                    yield partial(attention, dtype, width, by_edge=by_edge)


def compile_for(architecture: int, *, full: bool) -> None:
    """Compile the kernels of all cases, and print what each kernel needs at most."""
    kernels: dict[str, tuple[str, Any]] = {}

    def compile_only(launch: Launch) -> None:
        arguments = tree_map(lambda x: getattr(x, "numbers", x), launch.arguments)
        kernel = launch.kernel.run(grid=launch.grid, warmup=True, **arguments)
        kernels[kernel.hash] = launch.kernel.__name__, kernel

    triton.runtime.driver.set_active(Driver(architecture))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Launch, "__call__", compile_only)
        patch.setattr(AsyncFiniteChecks, "note", lambda *_: None)  # nothing has been computed
        for run in cases(full):
            begin, before = time.perf_counter(), len(kernels)
            with nullcontext() if run.func is attention else gpu_stand_in():
                run()
            details = " ".join(map(str, (*run.args, *run.keywords.values())))
            took = f"{len(kernels) - before} kernels in {time.perf_counter() - begin:.0f} s"
            print(f"sm_{architecture} {run.func.__name__} {details}: {took}", flush=True)
    wrong = []
    for name in sorted({name for name, _ in kernels.values()}):
        variants = [kernel for other, kernel in kernels.values() if other == name]
        shared = max(-(-kernel.metadata.shared // 1024) for kernel in variants)
        spilled = max(spilled_bytes(x, architecture) for x in variants)
        print(f"sm_{architecture} {name}: {shared} KiB of shared memory, {spilled} bytes spilled")
        if shared > SHARED[architecture] or spilled > SPILLED[architecture].get(name, FEW):
            wrong.append(name)
    assert not wrong, f"kernels need too much on sm_{architecture}: {', '.join(wrong)}"


def spilled_bytes(kernel: Any, architecture: int) -> int:
    """Return the bytes that a thread keeps outside of registers, as the assembler reports them."""
    tools = sorted((Path(triton.__file__).parent / "backends/nvidia/bin").glob("ptxas*"))
    [target] = re.findall(r"\.target (\w+)", kernel.asm["ptx"])
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(kernel.asm["ptx"])
        options = "-v", "--gpu-name", target, source, "-o", Path(folder) / "kernel.cubin"
        for assembler in tools if architecture < 100 else reversed(tools):
            done = subprocess.run([assembler, *options], capture_output=True, text=True)
            if done.returncode == 0:  # Triton 3.9 takes the one for sm_100 for sm_90, too
                break
    done.check_returncode()
    [spilled] = re.findall(r"(\d+) bytes spill stores", done.stderr)
    return int(spilled)


def main() -> None:
    parser = ArgumentParser(prog="python -m tests.compile_kernels")
    parser.add_argument("architectures", nargs="*", metavar="ARCHITECTURE")
    parser.add_argument("--full", action="store_true")
    given = parser.parse_args()
    for name in given.architectures or ("sm_80", "sm_89", "sm_90", "sm_100"):
        architecture = int(name.removeprefix("sm_"))
        compile_for(architecture, full=given.full)


if __name__ == "__main__":
    sys.exit(main())
