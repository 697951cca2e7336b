"""The benchmark of processes: the same batch by several of one thread, and by one of several."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

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
_TOLERANCE = 1e-4  # of losses in float32


def bench_processes(
    *, sizes: Sizes, processes: int = 2, dim: int = 128, heads: int = 8, repeats: int = 9
) -> Report:
    """Measure an update of training by several processes against one of as many threads.

    Both train the same model of sequences on the same batch, and take turns. The learning rate is
    0, so that every update does the same work. The report is what a JSON file of it holds.

    Parameters
    ----------
    sizes : Sizes
        The batch: numbers of tokens of sources, which are also the targets.
    processes : int
        The number of processes, of one thread each.
    dim, heads : int
        Features of a node, and heads of the layers.
    repeats : int
        Timed rounds.

    Raises
    ------
    ValueError
        If there are fewer than two processes, or a size is impossible.
    RuntimeError
        If a process ends before its time, or losses differ.
    """
    if processes < 2:
        raise ValueError(f"processes must be at least 2, got {processes}")
    config = UniversalTransformerConfig(
        source_vocab=_VOCABULARY,
        target_vocab=_VOCABULARY,
        d_model=dim,
        num_heads=heads,
        d_hidden=4 * dim,
    )
    with TemporaryDirectory() as folder:
        teams = [
            _Team(count, processes // count, Path(folder, f"store-{count}"), sizes, config)
            for count in (1, processes)
        ]
        losses = [team.update() for team in teams]
        if abs(losses[0] - losses[1]) > _TOLERANCE * abs(losses[0]):
            raise RuntimeError(f"the losses of 1 and of {processes} processes are {losses}")
        runs = {str(team.processes): team.update for team in teams}
        times = interleaved(runs, repeats, CPU)
        for team in teams:
            team.end()
    one, several = (times[str(team.processes)]["median"] for team in teams)
    return {
        "bench": "processes",
        "machine": dated_machine(CPU),
        "sizes": str(sizes),
        "dim": dim,
        "heads": heads,
        "times_faster": one / several,
        "rows": [
            {"processes": t.processes, "threads": t.threads, "seconds": times[str(t.processes)]}
            for t in teams
        ],
    }


class _Team:
    """Processes that make an update whenever they are told to."""

    def __init__(
        self,
        processes: int,
        threads: int,
        store: Path,
        sizes: Sizes,
        config: UniversalTransformerConfig,
    ) -> None:
        self.processes, self.threads = processes, threads
        context = multiprocessing.get_context("spawn")
        pipes = [context.Pipe() for _ in range(processes)]
        self._members = [
            context.Process(
                target=_train,
                args=(_Place(rank, processes, threads, str(store)), theirs, sizes, config),
                daemon=True,
            )
            for rank, (_, theirs) in enumerate(pipes)
        ]
        for member in self._members:
            member.start()
        self._pipes = [own for own, _ in pipes]
        for _, theirs in pipes:
            theirs.close()  # so that the end of a process is noticed

    def update(self) -> float:
        """Make an update, and return its loss."""
        try:
            for pipe in self._pipes:
                pipe.send(True)
            first, *_ = [float(pipe.recv()) for pipe in self._pipes]
            return first
        except (EOFError, OSError) as error:
            raise RuntimeError("a process of the benchmark has ended: see above") from error

    def end(self) -> None:
        """End the processes."""
        for pipe in self._pipes:
            pipe.send(False)
        for member in self._members:
            member.join()


@dataclass(frozen=True)
class _Place:
    """The place of a process in its team."""

    rank: int
    processes: int
    threads: int
    store: str  # the file through which they find each other


def _train(place: _Place, pipe: Any, sizes: Sizes, config: UniversalTransformerConfig) -> None:
    torch.set_num_threads(place.threads)
    if place.processes > 1:
        store = f"file://{place.store}"
        dist.init_process_group(
            "gloo", init_method=store, rank=place.rank, world_size=place.processes
        )
    update = _make_update(sizes, config)
    while pipe.recv():
        pipe.send(update())
    if place.processes > 1:
        dist.destroy_process_group()


def _make_update(sizes: Sizes, config: UniversalTransformerConfig) -> Callable[[], float]:
    torch.manual_seed(0)
    model = UniversalTransformer(config)
    training = TrainingConfig()
    optimizer = make_optimizer(model.parameters(), training)
    optimizer.param_groups[0]["lr"] = 0.0
    gradient = BatchGradient(model, PairLearner(), training)
    sentences = [torch.randint(2, _VOCABULARY, (n,)).tolist() for n in sizes.lengths().tolist()]
    batch = [(sentence, sentence) for sentence in sentences]

    def update() -> float:
        optimizer.zero_grad()
        _, numbers = gradient.add(batch, training.ponder_weight)
        optimizer.step()
        return numbers[0].item()

    return update
