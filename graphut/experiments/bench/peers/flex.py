"""`flex_attention`, all sentences in one row, blocks without edges skipped."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from graphut.attention import IntervalLayout
from graphut.experiments.bench.contender import Contender, UnavailableError
from graphut.experiments.bench.peers.room import check_plain, check_room
from graphut.experiments.bench.problem import AttentionProblem

_Kernel = Callable[..., Tensor]
_Mask = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def prepare_flex(problem: AttentionProblem) -> Contender:
    """See the module; compiled, and on CUDA alone."""
    if problem.device.type != "cuda":
        raise UnavailableError("flex_attention has no backward on the CPU")
    return flex_contender(problem, torch.compile)


def flex_contender(problem: AttentionProblem, compiled: Callable[[_Kernel], _Kernel]) -> Contender:
    """The contender with what `compiled` makes of `flex_attention`."""
    try:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    except ModuleNotFoundError as error:
        raise UnavailableError("came with torch 2.5") from error
    kernel = compiled(flex_attention)
    check_plain(problem.biased)
    rows, sources = problem.rows, problem.layout.num_src
    check_room(2 * rows * sources, problem.device)
    device = str(problem.device)
    blocks = create_block_mask(_mask(problem), None, None, rows, sources, device=device)

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        query, key, value = (x.transpose(0, 1)[None] for x in (query, key, value))
        return kernel(query, key, value, block_mask=blocks)[0].transpose(0, 1)

    return Contender(attend)


def _mask(problem: AttentionProblem) -> _Mask:
    """Bounds of the run of each row where there is one, a table elsewhere."""
    layout = problem.layout
    if isinstance(layout, IntervalLayout):
        every = torch.arange(layout.num_dst, device=layout.device)
        nodes = every if problem.frontier is None else problem.frontier
        lo, hi = layout.lo[nodes], layout.hi[nodes]
        return lambda batch, head, row, source: (source >= lo[row]) & (source < hi[row])
    table = torch.zeros(problem.rows, layout.num_src, dtype=torch.bool, device=layout.device)
    table[problem.in_edges] = True
    return lambda batch, head, row, source: table[row, source]
