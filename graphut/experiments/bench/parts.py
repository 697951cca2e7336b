"""The benchmark of one graph on several processes, compared with one process that has all of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, multiprocessing
from torch.utils.benchmark import timer

from graphut.distributed import Part, assign_parts, load_part, write_parts
from graphut.experiments.bench.driver import CPU, Row, check_heads, say
from graphut.experiments.bench.peak_memory import peak_bytes, settle_allocator
from graphut.nn import (
    AdaptiveRecurrence,
    MultiHeadAttention,
    PositionwiseTransition,
    ScheduledHalting,
    UniversalTransformerStep,
)

FAMILIES = ("grid", "power-law")
ALONE = "1 process"
_MAX_STEPS, _DEGREE, _EXPONENT = 8, 10, 2.5


def make_edges(family: str, nodes: int) -> NDArray[np.int64]:
    """Return the `(2, E)` edges, with self-loops and in both directions, of a graph of a family.

    A grid is as square as possible. The expected degrees of "power-law" are 10 on average, and
    their distribution has the exponent 2.5 (Chung and Lu 2002).
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


def bench_parts(
    nodes: int,
    *,
    families: Sequence[str] = FAMILIES,
    processes: int = 2,
    dim: int,
    heads: int,
    repeats: int,
) -> list[Row]:
    """Compare processes of one thread with one process that has as many threads.

    They take turns. A run is the forward and the backward pass of a recurrence of 8 steps. Nodes
    halt at random steps, uniformly distributed. Peak memory is of a process, including its part of
    the graph. Further rows have the MiB that all processes send in each step, forward and backward.

    Raises
    ------
    ValueError
        If a number is out of range.
    RuntimeError
        If the bytes that are sent in a step, or the loss, differ from what is expected.
    """
    check_heads(dim, heads)
    if not 2 <= processes <= nodes:
        raise ValueError(f"processes must be at least 2 and at most {nodes}, got {processes}")
    rows = []
    for family in families:
        with TemporaryDirectory() as folder:
            rows += _bench(family, Path(folder), nodes, processes, dim, heads, repeats)
    return rows


def _bench(
    family: str, folder: Path, nodes: int, processes: int, dim: int, heads: int, repeats: int
) -> list[Row]:
    edges = make_edges(family, nodes)
    steps = np.random.default_rng(0).integers(1, _MAX_STEPS + 1, nodes)
    say(f"cutting {family}")
    for count in (1, processes):
        part_of = assign_parts(edges, nodes, count)
        write_parts(folder / str(count), edges, part_of, {"steps": steps})
    halo = sum(len(np.load(p)) for p in (folder / str(processes)).glob("*/halo_nodes.npy"))
    names = {1: f"{ALONE}, {processes} threads", processes: f"{processes} processes, 1 thread"}
    times: dict[int, list[float]] = {1: [], processes: []}
    with _workers(folder, processes, dim, heads) as workers:
        losses = {count: sum(_ask(own, "loss")) for count, own in workers.items()}
        if abs(losses[1] - losses[processes]) > 1e-4 * abs(losses[1]):
            raise RuntimeError(f"the losses differ: {losses}")
        for number in range(1, repeats + 1):
            say(f"round {number} of {repeats}")
            for count, own in workers.items():
                times[count].append(max(_ask(own, "seconds")))
        peaks = {count: max(_ask(own, "peak")) for count, own in workers.items()}
        sent, expected = np.sum(_ask(workers[processes], "bytes"), 0)
    if not np.array_equal(sent, expected):
        raise RuntimeError(f"the bytes of each step are {sent}, expected {expected}")
    workload = f"{family}, {nodes:,} nodes, {edges.shape[1]:,} edges, halo {halo / nodes:.2%}"
    rows: list[Row] = []
    for count, name in names.items():
        lower, median, upper = (1e3 * np.percentile(times[count], [25, 50, 75])).tolist()
        row = {"workload": workload, "contender": name, "ms": median, "peak_mib": peaks[count]}
        rows.append({**row, "lower_ms": lower, "upper_ms": upper})
    title = f"{family}: MiB sent in a step, forward and backward"
    return rows + [
        {"workload": title, "contender": f"step {t}", "value": float(x) / 2**20}
        for t, x in enumerate(sent, 1)
    ]


def _ask(workers: Sequence[Connection], question: str) -> list[Any]:
    """Ask all workers of a group, and return their answers."""
    for worker in workers:
        worker.send(question)
    return [worker.recv() for worker in workers]


@contextmanager
def _workers(folder: Path, processes: int, dim: int, heads: int) -> Any:
    """Start a process that has the graph, and a group that has its parts; yield connections."""
    context, started = multiprocessing.get_context("spawn"), []
    found: dict[int, list[Connection]] = {}
    for count in (1, processes):
        for rank in range(count):
            here, there = context.Pipe()
            options = (rank, count, processes // count, folder, dim, heads, there)
            started.append(context.Process(target=_work, args=options, daemon=True))
            started[-1].start()
            there.close()  # so that the end of the worker is noticed
            found.setdefault(count, []).append(here)
    try:
        yield found
        for worker in (each for group in found.values() for each in group):
            worker.send(None)
    except EOFError:
        raise RuntimeError("a process of the benchmark has ended: see its message") from None
    finally:
        for process in started:
            process.join(30)
            process.terminate()


def _work(
    rank: int, count: int, threads: int, folder: Path, dim: int, heads: int, asked: Connection
) -> None:
    """Answer the questions of the benchmark about one part, in a process of its own."""
    torch.set_num_threads(threads)
    settle_allocator()
    if count > 1:
        store = f"file://{folder}/store"
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=count)

    def load() -> _Run:
        return _Run(load_part(folder / str(count)), dim, heads)

    def peak() -> float:
        return (peak_bytes(lambda: load()(), CPU) or 0) / 2**20

    run = load()
    answers: dict[str, Callable[[], Any]] = {
        "loss": run, "seconds": run.seconds, "peak": peak, "bytes": run.sent_and_expected
    }  # fmt: skip
    while (question := asked.recv()) is not None:
        asked.send(answers[question]())


class _Run:
    """Forward and backward pass of a recurrence on a part."""

    def __init__(self, part: Part, dim: int, heads: int) -> None:
        self.part, self.steps = part, torch.from_numpy(part.arrays["steps"])
        torch.manual_seed(0)
        step = UniversalTransformerStep(
            MultiHeadAttention(dim, heads), PositionwiseTransition(dim, 2 * dim)
        )
        self.layer = AdaptiveRecurrence(
            step, ScheduledHalting(self.steps), max_steps=_MAX_STEPS, step_signal=None
        )
        place = part.nodes[:, None] * 0.7 + torch.arange(dim)
        self.feat, self.layout = place.sin().requires_grad_(), part.layout

    def __call__(self) -> float:
        loss = self.layer(self.layout, self.feat)[0].square()[:, 0].sum()
        torch.autograd.backward(loss)
        return float(loss.detach())

    def seconds(self) -> float:
        """Return the seconds of a run; all processes begin together."""
        if self.part.halo is not None:
            dist.barrier()
        start = timer()
        self()
        return timer() - start

    def sent_and_expected(self) -> tuple[list[int], list[int]]:
        """Return the bytes that this process sends in each step, and those of the formula.

        A node is sent to each process that reads it, in every step until the step after its last:
        its state and 4 bytes forward, and the gradient of the state backward.
        """
        halo, send = self.part.halo, dist.all_to_all_single
        assert halo is not None
        sizes: list[int] = []

        def count(found: Tensor, given: Tensor, *args: Any, **options: Any) -> Any:
            if given.dim() == 2:  # the others are numbers of rows
                sizes.append(given.nbytes if given.dtype == torch.uint8 else found.nbytes)
            return send(found, given, *args, **options)

        with patch.object(dist, "all_to_all_single", count):
            self()
        forward, backward = sizes[: len(sizes) // 2], sizes[len(sizes) // 2 :][::-1]
        slots = self.steps[halo.slot_nodes]
        rows = [int((slots >= t - 1).sum()) for t in range(1, len(forward) + 1)]
        size = 4 * self.feat.shape[1]
        sent = [a + b for a, b in zip(forward, backward, strict=True)]
        return sent, [row * (2 * size + 4) for row in rows]
