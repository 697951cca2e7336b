"""The comparison of topologies: train the same model under each, and tabulate the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from graphut._dgl import DGLGraph
from graphut.experiments.bench.driver import CPU, measure
from graphut.experiments.tables import mean_and_deviation, plain_table, three_digits
from graphut.experiments.tasks import PairTask
from graphut.experiments.training import Evaluation, Run, Trainer, TrainingConfig, is_run
from graphut.experiments.training.learners.pairs import PairLearner, graph_outcome
from graphut.experiments.wording import counted
from graphut.models import UniversalTransformer, UniversalTransformerConfig
from graphut.sentences import CROSS, DECODE, ENCODE

MODEL_PARTS = {"encoder": ENCODE, "decoder": DECODE, "cross": CROSS}
"""The edge types of the sentence graph, by the part of the model."""
_HEAD = ["sequences right", "tokens right", "edges", "ms a batch", "encoder steps", "decoder steps"]


@dataclass(frozen=True)
class ComparisonRow:
    """The trained models with one topology."""

    topology: str
    edges: float  # per sentence, averaged over a batch
    ms: float  # median time of a forward and a backward pass over a batch
    evaluations: list[Evaluation]  # of the best model of each seed on the test set

    def cells(self) -> list[str]:
        """Return a line of the table; several seeds give a mean and its standard deviation."""

        def column(name: str, form: Callable[[float], str]) -> str:
            return mean_and_deviation([found[name] for found in self.evaluations], form)

        return [
            self.topology,
            column("sequence_accuracy", "{:.2%}".format),
            column("token_accuracy", "{:.2%}".format),
            three_digits(self.edges),
            three_digits(self.ms),
            column("encoder_steps", "{:.2f}".format),
            column("decoder_steps", "{:.2f}".format),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the row for a JSON file."""
        return {**vars(self), "evaluations": [found.metrics for found in self.evaluations]}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The topologies to compare, and what is trained with each of them."""

    topologies: Sequence[str]  # specs, such as "window:3|global:0"
    task: PairTask
    training: TrainingConfig  # but for the seed
    config: UniversalTransformerConfig  # of the model, but for the topology
    seeds: Sequence[int] = (0,)  # of weights, order and dropout, the same for every topology
    part: str = "encoder"  # the part of the model whose topology differs: see `MODEL_PARTS`
    device: torch.device = CPU

    def __post_init__(self) -> None:
        """Raise `ValueError` if there is nothing to compare, or a topology does not fit."""
        if self.part not in MODEL_PARTS:
            raise ValueError(f"part must be one of {', '.join(MODEL_PARTS)}, got {self.part!r}")
        for name in ("topologies", "seeds"):
            if not getattr(self, name):
                raise ValueError(f"{name} is empty: there is nothing to compare")
            if len({*getattr(self, name)}) < len(getattr(self, name)):
                raise ValueError(f"{name} must differ, got {[*getattr(self, name)]}")
        for topology in self.topologies:
            self.config_with(topology)

    def config_with(self, topology: str) -> UniversalTransformerConfig:
        """Return the configuration of the model with one of the topologies."""
        options: dict[str, Any] = {f"{self.part}_topology": topology}
        return replace(self.config, **options)

    def run(
        self, folder: str | Path, *, repeats: int = 5, report: Callable[[str], None] = print
    ) -> list[ComparisonRow]:
        """Train, evaluate and time a model for each topology and each seed.

        The run of the first topology with seed 0 is in the folder `1-seed-0`, and so on. Runs that
        exist are resumed; raise `FileExistsError` if one has other options. `report` gets the lines
        of every training. Times are medians over `repeats` rounds.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from graphut.experiments.tasks import Copy
        >>> comparison = Comparison(
        ...     topologies=["complete", "window:1"],
        ...     task=Copy(mean_length=3, epoch_size=8, held_out=2),
        ...     training=TrainingConfig(epochs=1),
        ...     config=UniversalTransformerConfig(source_vocab=28, target_vocab=28, d_model=8),
        ... )
        >>> with TemporaryDirectory() as folder:
        ...     rows = comparison.run(folder, repeats=1, report=lambda line: None)
        >>> [row.topology for row in rows]
        ['complete', 'window:1']
        """
        # All folders are made first, so that a wrong one is an error before any training.
        runs = {
            topology: [self._begin(Path(folder, f"{n}-seed-{seed}"), topology, seed)
                       for seed in self.seeds]
            for n, topology in enumerate(self.topologies, start=1)
        }  # fmt: skip
        models = {
            topology: [self._train(run, topology, report) for run in each]
            for topology, each in runs.items()
        }
        pairs = self.task.test[: self.training.batch_size]
        sources, targets = zip(*pairs, strict=True)
        graphs = {
            topology: each[0].sentence_graph(sources, targets) for topology, each in models.items()
        }
        passes = {
            topology: partial(self._pass, models[topology][0], graphs[topology])
            for topology in models
        }
        times = measure("a batch", passes, repeats=repeats, device=self.device)
        rows = []
        for (topology, each), time in zip(models.items(), times, strict=True):
            found = [
                PairLearner().evaluate(model, self.task.vocabularies, self.task.test)
                for model in each
            ]
            edges = graphs[topology].num_edges(MODEL_PARTS[self.part]) / len(pairs)
            rows.append(ComparisonRow(topology, edges, time["ms"], found))
        return rows

    def text(self, rows: Sequence[ComparisonRow]) -> str:
        """Return a title and the table of results."""
        epochs = counted(self.training.epochs, "epoch")
        seeds = f"seed{'s' * (len(self.seeds) > 1)} {', '.join(map(str, self.seeds))}"
        title = f"{self.part} topologies on {self.task.name}, at most {epochs}, {seeds}"
        head = [f"{self.part} topology", *_HEAD]
        return f"{title}\n\n{plain_table(head, [row.cells() for row in rows])}"

    def _begin(self, folder: Path, topology: str, seed: int) -> Run:
        training, config = replace(self.training, seed=seed), self.config_with(topology)
        if is_run(folder):
            run = Run.open(folder)
            if (run.task(), run.training, run.model().config) != (self.task, training, config):
                raise FileExistsError(f"the run in {folder} has other options: give another folder")
            return run
        torch.manual_seed(seed)
        return Run.create(folder, self.task, training, UniversalTransformer(config))

    def _train(
        self, run: Run, topology: str, report: Callable[[str], None]
    ) -> UniversalTransformer:
        """Train a run, and return its best model."""
        model = UniversalTransformer.from_pretrained(run.folder).to(self.device)

        def report_line(line: str) -> None:
            report(f"{topology}, seed {run.training.seed}: {line}")

        torch.manual_seed(run.training.seed)
        trainer = Trainer(model, self.task, run.training, run.folder, report=report_line)
        if run.has_begun:
            trainer.resume()
        trainer.fit()
        return UniversalTransformer.from_pretrained(run.folder).to(self.device)

    def _pass(self, model: UniversalTransformer, graph: DGLGraph) -> None:
        """Run forward and backward over a batch of test pairs."""
        model.train()
        outcome = graph_outcome(model, graph)
        torch.autograd.backward(outcome.total_loss(self.training.ponder_weight))
        model.zero_grad()
        model.eval()
