"""The benchmark of processes: the same batch by several of one thread, and by one of several."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from tempfile import TemporaryDirectory

import torch
import torch.distributed as dist
from torch import multiprocessing

from graphut.experiments.bench.report import Report
from graphut.experiments.bench.timing import interleaved
from graphut.experiments.bench.workloads import CPU, Sizes
from graphut.experiments.machine import dated_machine
from graphut.experiments.training import TrainingConfig
from graphut.experiments.training.gradient import BatchGradient
from graphut.experiments.training.learners.pairs import PairLearner
from graphut.experiments.training.optimization import make_optimizer
from graphut.models import UniversalTransformer, UniversalTransformerConfig

_VOCABULARY = 100
_VOCABULARIES = {"source_vocab": _VOCABULARY, "target_vocab": _VOCABULARY}
_TOLERANCE = 1e-4  # of losses in float32

_prepared: list[Callable[[], float]] = []  # the update of this process, by `_join`


def bench_processes(
    *, sizes: Sizes, processes: int = 2, dim: int = 128, heads: int = 8, repeats: int = 9
) -> Report:
    """Measure an update of training by several processes against one of as many threads.

    Both train the same model of sequences on the same batch, and take turns: `repeats` rounds. The
    report is what a JSON file of it holds. Raise `ValueError` if there are fewer than two
    processes, or a size is impossible, and `ArithmeticError` if losses differ.
    """
    if processes < 2:
        raise ValueError(f"processes must be at least 2, got {processes}")
    shape = {"d_model": dim, "num_heads": heads, "d_hidden": 4 * dim}
    config = UniversalTransformerConfig.from_dict({**_VOCABULARIES, **shape})
    with TemporaryDirectory() as folder, ExitStack() as stack:

        def start(count: int) -> Callable[[], float]:
            threads, store = processes // count, f"file://{folder}/{count}"
            # A fork would wait for ever for the threads of this process.
            context = multiprocessing.get_context("spawn")
            members = [
                stack.enter_context(
                    ProcessPoolExecutor(
                        1, context, _join, (rank, count, threads, store, sizes, config)
                    )
                )
                for rank in range(count)
            ]

            def update() -> float:
                losses = [member.submit(_update) for member in members]
                return max(loss.result() for loss in losses)  # which are all the same

            return update

        runs = {count: start(count) for count in (1, processes)}
        one, several = (run() for run in runs.values())
        if abs(one - several) > _TOLERANCE * abs(one):
            raise ArithmeticError(f"the loss of 1 process is {one}, of {processes} {several}")
        times = interleaved({str(count): run for count, run in runs.items()}, repeats, CPU)
    return {
        "bench": "processes",
        "machine": dated_machine(CPU),
        "sizes": str(sizes),
        "dim": dim,
        "heads": heads,
        "times_faster": times["1"]["median"] / times[str(processes)]["median"],
        "rows": [
            {"processes": n, "threads": processes // n, "seconds": times[str(n)]} for n in runs
        ],
    }


def _join(
    rank: int,
    count: int,
    threads: int,
    store: str,
    sizes: Sizes,
    config: UniversalTransformerConfig,
) -> None:
    """Prepare `_update` in a process of its own; processes find each other through `store`."""
    torch.set_num_threads(threads)
    if count > 1:
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=count)
    torch.manual_seed(0)
    model, training = UniversalTransformer(config), TrainingConfig()
    optimizer = make_optimizer(model.parameters(), training)
    optimizer.param_groups[0]["lr"] = 0.0  # so that every update does the same work
    gradient = BatchGradient(model, PairLearner(), training)
    sentences = [torch.randint(2, _VOCABULARY, (n,)).tolist() for n in sizes.lengths().tolist()]

    def update() -> float:
        optimizer.zero_grad()
        _, numbers = gradient.add([(s, s) for s in sentences], training.ponder_weight)
        optimizer.step()
        return numbers[0].item()

    _prepared.append(update)


def _update() -> float:
    return _prepared[0]()
