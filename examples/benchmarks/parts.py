"""Compare processes, each with a part of a graph, with a single process.

    torchrun --nproc-per-node 2 examples/benchmarks/parts.py

The single process uses as many threads as there are processes. A timed call is the forward and the
backward pass of a recurrence of 8 steps, whose nodes halt at random steps. The time ends when all
processes are done. Peak memory is measured in process 0.
"""

import re
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from math import isclose
from pathlib import Path
from typing import Any
from unittest.mock import patch

import common
import dgl
import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from graphut.attention import EdgeLayout
from graphut.distributed import Part, cut_graph
from graphut.experiments.training.processes import (
    all_reduce_sum,
    barrier,
    num_processes,
    process_group,
    rank,
)
from graphut.nn import (
    AdaptiveRecurrence,
    MultiHeadAttention,
    PositionwiseTransition,
    ScheduledHalting,
    UniversalTransformerStep,
)

_MAX_STEPS, _DEGREE, _EXPONENT = 8, 10, 2.5


def make_edges(family: str, nodes: int) -> NDArray[np.int64]:
    """Return the edges `(2, E)` of a graph, in both directions and with self-loops.

    The `family` is "grid" (as square as possible) or "power-law": the expected degrees are 10 on
    average, and their distribution has the exponent 2.5 (Chung and Lu 2002).
    """
    node = np.arange(nodes)
    if family == "grid":
        width = int(nodes**0.5)
        right, below = node[(node + 1) % width != 0], node[: nodes - width]
        ends = np.concatenate([[right, right + 1], [below, below + width]], 1)
        ends = ends[:, ends.max(0) < nodes]
    else:
        random, weight = np.random.default_rng(0), (node + 1.0) ** (-1 / (_EXPONENT - 1))
        chance = weight.cumsum() / weight.sum()
        drawn = np.searchsorted(chance, random.random((2, nodes * _DEGREE // 2)))
        ends = random.permutation(nodes)[drawn.clip(max=nodes - 1)]
        ends = np.unique(np.sort(ends[:, ends[0] != ends[1]], 0), axis=1)
    return np.concatenate([ends, ends[::-1], [node, node]], 1)


def bench_parts(family: str, nodes: int, dim: int, heads: int, repeats: int) -> list[common.Row]:
    """Return rows of times on a graph of a family, and rows of MiB sent in each step.

    Raise `ArithmeticError` if the loss, or the bytes sent in a step, differ from what is expected.
    """
    edges = make_edges(family, nodes)
    steps, processes = np.random.default_rng(0).integers(1, _MAX_STEPS + 1, nodes), num_processes()
    graph = dgl.to_bidirected(dgl.graph((*torch.from_numpy(edges),), num_nodes=nodes))
    with redirect_stdout(StringIO()):  # DGL prints its steps
        part_of = dgl.metis_partition_assignment(graph, processes).numpy().astype(np.int64)
    dist.broadcast(torch.from_numpy(part_of), 0)
    [whole] = cut_graph(edges, np.zeros_like(part_of), {"steps": steps})
    own = [*cut_graph(edges, part_of, {"steps": steps})][rank()]
    torch.manual_seed(0)
    step = UniversalTransformerStep(
        MultiHeadAttention(dim, heads), PositionwiseTransition(dim, 2 * dim)
    )

    def run(part: Part, layout: EdgeLayout) -> Tensor:
        """Run a recurrence on a part of the graph, forward and backward; return the loss."""
        depth = torch.from_numpy(part.arrays["steps"])
        layer = AdaptiveRecurrence(
            step, ScheduledHalting(depth), max_steps=_MAX_STEPS, step_signal=None
        )
        feat = (part.nodes[:, None] * 0.7 + torch.arange(dim)).sin().requires_grad_()
        loss = layer(layout, feat)[0].square()[:, 0].sum()
        torch.autograd.backward(loss)
        return loss.detach().double()

    def alone() -> Tensor:
        loss = torch.zeros((), dtype=torch.float64)
        if not rank():  # the others wait
            torch.set_num_threads(processes)
            loss = run(whole, whole.layout)
        torch.set_num_threads(1)
        barrier()
        return loss

    def together() -> Tensor:
        loss = run(own, own.layout)
        barrier()
        return loss

    expected, found = (all_reduce_sum(each()).item() for each in (alone, together))
    if not isclose(expected, found, rel_tol=1e-4):
        raise ArithmeticError(f"the loss of the parts is {found}, but of the graph {expected}")
    halo = all_reduce_sum(torch.tensor(len(own.halo_nodes))) / nodes
    names = f"1 process, {processes} threads", f"{processes} processes, 1 thread"
    runs = dict(zip(names, (alone, together), strict=True))
    title = f"{family}, {nodes:,} nodes, {edges.shape[1]:,} edges, halo {halo:.2%}"
    # `before` replaces the warm-up, because all processes must make the same calls.
    rows = common.time_in_turns(title, runs, repeats, before=barrier)
    rows = [{**row, "peak_mib": peak_mib(runs[row["contender"]])} for row in rows]
    title = f"{family}: MiB sent in a step, forward and backward"
    sent = count_bytes(own, dim, together)
    return rows + [
        {"workload": title, "contender": f"step {t}", "value": float(x) / 2**20}
        for t, x in enumerate(sent, 1)
    ]


def count_bytes(part: Part, dim: int, run: Callable[[], object]) -> NDArray[np.int64]:
    """Count and check the bytes that all processes send in each step of `run`, `(steps,)`.

    In each step, up to the one after it halts, a node is sent to every other process that has one
    of its out-neighbours. The forward pass sends its state (`dim` float32 numbers) and 4 bytes, and
    the backward pass the gradient of the state. Other sizes raise `ArithmeticError`.
    """
    assert part.halo is not None
    sizes, send = [], dist.all_to_all_single

    def count(found: Tensor, given: Tensor, *args: Any, **options: Any) -> Any:
        if given.dim() == 2:  # the others are numbers of rows
            sizes.append(given.nbytes)
        return send(found, given, *args, **options)

    with patch.object(dist, "all_to_all_single", count):
        run()
    forward, backward = np.split(all_reduce_sum(torch.tensor(sizes)).numpy(), 2)
    last = torch.from_numpy(part.arrays["steps"])[part.halo.slot_nodes]
    rows = torch.stack([(last >= t).sum() for t in range(len(forward))])
    expected = all_reduce_sum(rows).numpy() * (8 * dim + 4)
    if not np.array_equal(sent := forward + backward[::-1], expected):
        raise ArithmeticError(f"the bytes of each step are {sent}, expected {expected}")
    return sent


def peak_mib(run: Callable[[], object]) -> float:
    """Return the memory that `run` adds to the resident memory of this process."""

    def read(field: str) -> int:
        found = re.search(rf"{field}:\s+(\d+)", Path("/proc/self/status").read_text())
        return int(found[1]) if found else 0

    Path("/proc/self/clear_refs").write_text("5")  # forgets the earlier peak
    before = read("VmRSS")
    run()
    return (read("VmHWM") - before) / 1024


if __name__ == "__main__":
    families = ("grid", "power-law")
    options = common.parse_options(__doc__, families=families, nodes=200_000, dim=32, heads=4)
    sizes = options.nodes, options.dim, options.heads, options.repeats
    with process_group():
        groups = (bench_parts(family, *sizes) for family in options.families)
        common.report("parts", groups, options.results)
