"""The comparison of topologies: the same model, trained under each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from graphut._dgl import DGLGraph
from graphut.experiments.bench.comparison_report import ComparisonReport, ComparisonRow
from graphut.experiments.bench.timing import interleaved
from graphut.experiments.bench.workloads import CPU
from graphut.experiments.machine import dated_machine
from graphut.experiments.tasks import PairTask
from graphut.experiments.training import Run, Trainer, TrainingConfig, judge, summarize
from graphut.experiments.training.learners.pairs import graph_outcome
from graphut.models import UniversalTransformer, UniversalTransformerConfig
from graphut.sentences import CROSS, DECODE, ENCODE
from graphut.topology import Topology

PARTS = {"encoder": ENCODE, "decoder": DECODE, "cross": CROSS}
"""The edge types of the sentence graph, by the part of the model."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The topologies to compare, and what to train under each of them.

    Parameters
    ----------
    topologies : sequence of Topology
        They take turns as the model's topology.
    task : PairTask
        The task to learn.
    training : TrainingConfig
        The options of the training; each run has a seed of its own.
    config : UniversalTransformerConfig
        The rest of the model.
    seeds : sequence of int
        Seeds of the weights, the order of the pairs, and dropout, the same for every topology.
    part : {"encoder", "decoder", "cross"}
        The part of the model whose topology differs.
    device : torch.device
        Where to train.

    Raises
    ------
    ValueError
        If a topology does not fit the part, or there is none, or no seed.
    """

    topologies: Sequence[Topology]
    task: PairTask
    training: TrainingConfig
    config: UniversalTransformerConfig
    seeds: Sequence[int] = (0,)
    part: str = "encoder"
    device: torch.device = CPU

    def __post_init__(self) -> None:
        """Raise `ValueError` if there is nothing to compare, or a topology does not fit."""
        if self.part not in PARTS:
            raise ValueError(f"part must be one of {', '.join(PARTS)}, got {self.part!r}")
        for name in ("topologies", "seeds"):
            if not getattr(self, name):
                raise ValueError(f"{name} is empty: there is nothing to compare")
        for topology in self.topologies:
            self.config_under(topology)

    def config_under(self, topology: Topology) -> UniversalTransformerConfig:
        """Return the model's configuration with one of the topologies."""
        options: dict[str, Any] = {f"{self.part}_topology": str(topology)}
        return replace(self.config, **options)

    def run(
        self, folder: str | Path, *, repeats: int = 5, report: Callable[[str], None] = print
    ) -> ComparisonReport:
        """Train, judge and time a model for each topology and each seed.

        Parameters
        ----------
        folder : str or Path
            Gets a run in `1-seed-0` for the first topology and the seed 0, and so on.
        repeats : int
            Timed rounds.
        report : callable, optional
            Gets the lines of every training.

        Raises
        ------
        FileExistsError
            If one of these runs is there already.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from graphut.experiments.tasks import Copy
        >>> from graphut.topology import Complete, Window
        >>> comparison = Comparison(
        ...     topologies=[Complete(), Window(1)],
        ...     task=Copy(mean_length=3, epoch_size=8, held_out=2),
        ...     training=TrainingConfig(epochs=1),
        ...     config=UniversalTransformerConfig(source_vocab=28, target_vocab=28, d_model=8),
        ... )
        >>> with TemporaryDirectory() as folder:
        ...     found = comparison.run(folder, repeats=1, report=lambda line: None)
        >>> [str(row.topology) for row in found.rows]
        ['complete', 'window:1']
        """
        # All folders are made first: one that is taken is known before anything is trained.
        runs = [
            [self._begin(Path(folder, f"{n}-seed-{seed}"), topology, seed) for seed in self.seeds]
            for n, topology in enumerate(self.topologies, start=1)
        ]
        models = [[self._train(run, report) for run in of_topology] for of_topology in runs]
        passes = [_TrainingPass(found, self.task, self.training) for found in models]
        numbered = {str(n): timed for n, timed in enumerate(passes)}
        times = interleaved(numbered, repeats, self.device)
        rows = [
            ComparisonRow(
                topology,
                edges=timed.edges(PARTS[self.part]),
                seconds=times[n]["median"] / len(self.seeds),
                evaluations=[summarize(judge(model, self.task.test)) for model in timed.models],
            )
            for topology, (n, timed) in zip(self.topologies, numbered.items(), strict=True)
        ]
        machine, epochs = dated_machine(self.device), self.training.epochs
        return ComparisonReport(self.task.name, self.part, self.seeds, epochs, rows, machine)

    def _begin(self, folder: Path, topology: Topology, seed: int) -> Run:
        training = replace(self.training, seed=seed)
        torch.manual_seed(seed)
        model = UniversalTransformer(self.config_under(topology))
        return Run.create(folder, self.task, training, model)

    def _train(self, run: Run, report: Callable[[str], None]) -> UniversalTransformer:
        """Train a run, and return its best model."""
        model = UniversalTransformer.from_pretrained(run.folder).to(self.device)
        topology = getattr(model, f"{self.part}_topology")

        def report_line(line: str) -> None:
            report(f"{topology}, seed {run.training.seed}: {line}")

        torch.manual_seed(run.training.seed)
        Trainer(model, self.task, run.training, run.folder, report=report_line).fit()
        return UniversalTransformer.from_pretrained(run.folder).to(self.device)


class _TrainingPass:
    """One pass, forward and backward, of the models of all seeds over a batch of test pairs."""

    def __init__(
        self, models: Sequence[UniversalTransformer], task: PairTask, training: TrainingConfig
    ) -> None:
        sources, targets = zip(*task.test[: training.batch_size], strict=True)
        self.models = models
        self.graph: DGLGraph = models[0].sentence_graph(sources, targets)
        self.ponder_weight = training.ponder_weight

    def __call__(self) -> None:
        for model in self.models:
            model.train()
            outcome = graph_outcome(model, self.graph)
            torch.autograd.backward(outcome.loss(self.ponder_weight))
            model.zero_grad()
            model.eval()

    def edges(self, etype: tuple[str, str, str]) -> float:
        """Return the mean number of edges of a sentence."""
        return float(self.graph.num_edges(etype) / self.graph.batch_size)
