"""The comparison of topologies: the same model, trained under each, and the report of it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from graphut._dgl import DGLGraph
from graphut.experiments.bench.timing import Times, interleaved
from graphut.experiments.bench.workloads import CPU
from graphut.experiments.machine import dated_machine
from graphut.experiments.tables import (
    mean_and_deviation,
    milliseconds,
    plain_table,
    three_digits,
    two_decimals,
)
from graphut.experiments.tasks import PairTask
from graphut.experiments.training import Evaluation, Run, Trainer, TrainingConfig, is_run
from graphut.experiments.training.learners.pairs import PairLearner, graph_outcome
from graphut.experiments.wording import counted
from graphut.models import UniversalTransformer, UniversalTransformerConfig
from graphut.plotting.figure import BLUE, ORANGE, new_figure, shortened
from graphut.sentences import CROSS, DECODE, ENCODE
from graphut.topology import Topology

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEAD = ["sequences right", "tokens right", "edges", "ms a batch", "encoder steps", "decoder steps"]
MODEL_PARTS = {"encoder": ENCODE, "decoder": DECODE, "cross": CROSS}
"""The edge types of the sentence graph, by the part of the model."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The topologies to compare, and what to train under each of them."""

    topologies: Sequence[Topology]  # they take turns as the model's topology
    task: PairTask
    training: TrainingConfig  # each run has a seed of its own
    config: UniversalTransformerConfig  # the rest of the model
    seeds: Sequence[int] = (0,)  # of weights, order and dropout, the same for every topology
    part: str = "encoder"  # a key of `MODEL_PARTS`: the part of the model whose topology differs
    device: torch.device = CPU

    def __post_init__(self) -> None:
        """Raise `ValueError` if there is nothing to compare, or a topology does not fit."""
        if self.part not in MODEL_PARTS:
            raise ValueError(f"part must be one of {', '.join(MODEL_PARTS)}, got {self.part!r}")
        for name in ("topologies", "seeds"):
            if not getattr(self, name):
                raise ValueError(f"{name} is empty: there is nothing to compare")
        if len({*self.seeds}) < len(self.seeds):
            raise ValueError(f"seeds must differ, got {[*self.seeds]}: the same would be trained")
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

        The folder gets a run in `1-seed-0` for the first topology and the seed 0, and so on. Runs
        that are there already go on where they stopped; raise `FileExistsError` if one has other
        options. `report` gets the lines of every training; there are `repeats` timed rounds.

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
        # All folders are made first, so that a wrong one is an error before any training.
        runs = [
            [self._begin(Path(folder, f"{n}-seed-{seed}"), topology, seed) for seed in self.seeds]
            for n, topology in enumerate(self.topologies, start=1)
        ]
        models = [[self._train(run, report) for run in of_topology] for of_topology in runs]
        sources, targets = zip(*self.task.test[: self.training.batch_size], strict=True)
        graphs = [of_topology[0].sentence_graph(sources, targets) for of_topology in models]
        passes = {
            str(n): partial(self._pass, *each)
            for n, each in enumerate(zip(models, graphs, strict=True))
        }
        times = interleaved(passes, repeats, self.device).values()
        rows = [
            self._row(*each) for each in zip(self.topologies, models, graphs, times, strict=True)
        ]
        machine, epochs = dated_machine(self.device), self.training.epochs
        return ComparisonReport(self.task.name, self.part, self.seeds, epochs, rows, machine)

    def _row(
        self, topology: Topology, models: list[UniversalTransformer], graph: DGLGraph, times: Times
    ) -> ComparisonRow:
        vocabularies, pairs = self.task.vocabularies, self.task.test
        found = [PairLearner().evaluate(model, vocabularies, pairs) for model in models]
        edges = graph.num_edges(MODEL_PARTS[self.part]) / graph.batch_size
        return ComparisonRow(topology, edges, times["median"] / len(found), found)

    def _pass(self, models: list[UniversalTransformer], graph: DGLGraph) -> None:
        """Run forward and backward through the models of all seeds, over a batch of test pairs."""
        for model in models:
            model.train()
            outcome = graph_outcome(model, graph)
            torch.autograd.backward(outcome.total_loss(self.training.ponder_weight))
            model.zero_grad()
            model.eval()

    def _begin(self, folder: Path, topology: Topology, seed: int) -> Run:
        training, config = replace(self.training, seed=seed), self.config_under(topology)
        if is_run(folder):
            run = Run.open(folder)
            if (run.task(), run.training, run.model().config) != (self.task, training, config):
                raise FileExistsError(f"the run in {folder} has other options: give another folder")
            return run
        torch.manual_seed(seed)
        return Run.create(folder, self.task, training, UniversalTransformer(config))

    def _train(self, run: Run, report: Callable[[str], None]) -> UniversalTransformer:
        """Train a run, and return its best model."""
        model = UniversalTransformer.from_pretrained(run.folder).to(self.device)
        topology = getattr(model, f"{self.part}_topology")

        def report_line(line: str) -> None:
            report(f"{topology}, seed {run.training.seed}: {line}")

        torch.manual_seed(run.training.seed)
        trainer = Trainer(model, self.task, run.training, run.folder, report=report_line)
        if run.has_begun:
            trainer.resume()
        trainer.fit()
        return UniversalTransformer.from_pretrained(run.folder).to(self.device)


@dataclass(frozen=True)
class ComparisonRow:
    """The models under one topology."""

    topology: Topology
    edges: float  # of a sentence, on average over a batch
    seconds: float  # of a forward and a backward pass: the median, on average over seeds
    evaluations: list[Evaluation]  # of the best model of each seed, on the test set

    def values(self, name: str, factor: int = 1) -> list[float]:
        """Return a field of the evaluations, times a factor: one value for each seed."""
        return [factor * evaluation[name] for evaluation in self.evaluations]

    def cells(self) -> list[str]:
        """Return a line of the table."""
        return [
            str(self.topology),
            mean_and_deviation(self.values("sequence_accuracy"), "{:.2%}".format),
            mean_and_deviation(self.values("token_accuracy"), "{:.2%}".format),
            three_digits(self.edges),
            milliseconds(self.seconds),
            mean_and_deviation(self.values("encoder_steps"), two_decimals),
            mean_and_deviation(self.values("decoder_steps"), two_decimals),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the row for a JSON file."""
        evaluations = [evaluation.metrics for evaluation in self.evaluations]
        return {**vars(self), "topology": str(self.topology), "evaluations": evaluations}


@dataclass(frozen=True)
class ComparisonReport:
    """All topologies of a comparison."""

    task: str
    part: str  # the part of the model whose topology differs
    seeds: Sequence[int]
    epochs: int  # passes over the training pairs, at most
    rows: list[ComparisonRow]
    machine: dict[str, object]

    @property
    def title(self) -> str:
        """One line that says what was compared.

        Examples
        --------
        >>> ComparisonReport("sort", "encoder", [0, 1], 40, [], {}).title
        'encoder topologies on sort, at most 40 epochs, seeds 0, 1'
        """
        seeds = f"seed{'s' * (len(self.seeds) > 1)} {', '.join(map(str, self.seeds))}"
        epochs = counted(self.epochs, "epoch")
        return f"{self.part} topologies on {self.task}, at most {epochs}, {seeds}"

    def text(self) -> str:
        """Return the table; several seeds give a mean and its standard deviation."""
        head = [f"{self.part} topology", *_HEAD]
        return f"{self.title}\n\n{plain_table(head, [row.cells() for row in self.rows])}"

    def to_dict(self) -> dict[str, Any]:
        """Return the report for a JSON file: seconds and shares."""
        rows = [row.to_dict() for row in self.rows]
        return {**vars(self), "seeds": [*self.seeds], "rows": rows}

    def draw(self) -> Figure:
        """Draw accuracy, edges, time and steps of each topology; seeds are dots on their mean."""
        rows = self.rows
        figure = new_figure(12, 1.9 + 0.42 * len(rows))
        figure.suptitle(self.title)
        accuracy, edges, time, steps = figure.subplots(1, 4, sharey=True)
        _bars(accuracy, "right on the test set, %", {
            "sequences": [row.values("sequence_accuracy", 100) for row in rows],
            "tokens": [row.values("token_accuracy", 100) for row in rows],
        })  # fmt: skip
        accuracy.set_xlim(0, 105)
        _bars(edges, f"{self.part} edges of a sentence", {"": [[row.edges] for row in rows]})
        _bars(time, "forward and backward, ms", {"": [[1e3 * row.seconds] for row in rows]})
        _bars(steps, "mean steps of a token", {
            "encoder": [row.values("encoder_steps") for row in rows],
            "decoder": [row.values("decoder_steps") for row in rows],
        })  # fmt: skip
        accuracy.set_yticks(range(len(rows)), [shortened(str(row.topology)) for row in rows])
        accuracy.invert_yaxis()
        return figure


def _bars(axes: Axes, title: str, series: Mapping[str, list[list[float]]]) -> None:
    """Draw bars of the means beside each other, and a dot for each of several seeds."""
    height = 0.8 / len(series)
    for number, (label, rows) in enumerate(series.items()):
        offset = (number - (len(series) - 1) / 2) * height
        heights = [row + offset for row in range(len(rows))]
        means, colour = [*map(statistics.mean, rows)], (BLUE, ORANGE)[number]
        axes.barh(heights, means, height, color=colour, label=label)
        for y, values in zip(heights, rows, strict=True):
            if len(values) > 1:
                axes.plot(values, [y] * len(values), "ko", markersize=3, clip_on=False)
    axes.set_xlabel(title)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    if len(series) > 1:
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False)
