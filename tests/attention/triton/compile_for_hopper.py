"""Compile every kernel for the H200, with the arguments that a call gives it.

This is a separate program because Triton must not run its interpreter here. It prints the names of
the kernels.

    python -m tests.attention.triton.compile_for_hopper bfloat16 64 [everything]
"""

import sys
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget

from graphut.attention import EdgeLayout
from graphut.topology import Complete
from tests.attention.naive import hubs
from tests.attention.triton.cases import attend

HEADS = 8


class Hopper:
    """As much of a driver as compiling needs."""

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


def main(dtype: str, width: int, everything: bool) -> None:
    compiled = set()
    run = triton.JITFunction.run

    def compile_only(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        kernel = run(self, *args, grid=grid, warmup=True, **options)
        assert kernel.asm["cubin"]
        compiled.add(self.__name__)
        return kernel

    triton.runtime.driver.set_active(Hopper())
    triton.JITFunction.run = compile_only
    for layout in (Complete().layout([70, 3]), hubs(40, 40, 300)):
        launch(layout, getattr(torch, dtype), width, everything)
    print(*sorted(compiled))


def launch(layout: EdgeLayout, dtype: torch.dtype, width: int, everything: bool) -> None:
    """A forward and a backward pass whose kernels do nothing."""
    rows = (layout.num_dst, layout.num_src, layout.num_src)
    tensors = [torch.zeros(n, HEADS, width, dtype=dtype, requires_grad=True) for n in rows]
    options: dict[str, Any] = {}
    if everything:
        bias = torch.zeros(layout.num_edges, HEADS, requires_grad=True)
        frontier = torch.arange(layout.num_dst)
        options = {"edge_bias": bias, "dropout": 0.5, "seed": 3, "frontier": frontier}
    attend(layout, *tensors, scale=0.125, split=8, **options).sum().backward()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), everything="everything" in sys.argv)
