"""Train the same model with several encoder topologies, and tabulate the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from graphut._dgl import DGLGraph
from graphut.experiments.bench.driver import CPU, measure
from graphut.experiments.tables import mean_and_deviation, plain_table, three_digits
from graphut.experiments.tasks import PairTask
from graphut.experiments.training import Evaluation, Run, Trainer, TrainingConfig, evaluate
from graphut.experiments.training.learners.pairs import graph_outcome
from graphut.experiments.wording import pluralize
from graphut.models import UniversalTransformer, UniversalTransformerConfig
from graphut.sentences import ENCODE

_METRICS = {
    "sequence_accuracy": "{:.2%}",
    "token_accuracy": "{:.2%}",
    "encoder_steps": "{:.2f}",
    "decoder_steps": "{:.2f}",
}


@dataclass(frozen=True)
class ComparisonRow:
    """The results of the models that were trained with one topology."""

    topology: str
    edges: float  # per sentence, averaged over a batch
    ms: float  # median time of a forward and backward pass over a batch
    evaluations: list[Evaluation]  # of the best model of each seed on the test set


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A comparison of encoder topologies; each trains one model per seed.

    Raise `ValueError` if there is nothing to compare, or the model does not support a topology.
    """

    topologies: Sequence[str]  # specs, such as "window:3|global:0"
    task: PairTask
    training: TrainingConfig  # its seed is ignored
    config: UniversalTransformerConfig  # its encoder topology is ignored
    seeds: Sequence[int] = (0,)
    device: torch.device = CPU

    def __post_init__(self) -> None:
        """Check the topologies and the seeds."""
        for name in ("topologies", "seeds"):
            values = [*getattr(self, name)]
            if not values or len({*values}) < len(values):
                raise ValueError(f"{name} must be different values, at least one; got {values}")
        for topology in self.topologies:
            replace(self.config, encoder_topology=topology)

    def run(
        self, folder: str | Path, *, repeats: int = 5, report: Callable[[str], None] = print
    ) -> list[ComparisonRow]:
        """Train, evaluate and time a model for each topology and each seed.

        The run of the first topology with seed 0 is saved in the folder `1-seed-0`, and so on;
        raise `FileExistsError` if there is a run already. `report` receives the lines that the
        trainers print. Times are medians over `repeats` rounds.
        """
        models = {
            topology: [
                self._train(Path(folder, f"{number}-seed-{seed}"), topology, seed, report)
                for seed in self.seeds
            ]
            for number, topology in enumerate(self.topologies, start=1)
        }
        pairs = self.task.test[: self.training.batch_size]
        batch = tuple(zip(*pairs, strict=True))
        graphs = [own[0].sentence_graph(*batch) for own in models.values()]
        passes = {
            topology: partial(self._pass, own[0], graph)
            for (topology, own), graph in zip(models.items(), graphs, strict=True)
        }
        times = measure("a batch", passes, repeats=repeats, device=self.device)
        return [
            ComparisonRow(
                topology,
                graph.num_edges(ENCODE) / len(pairs),
                time["ms"],
                [evaluate(model, self.task, self.task.test) for model in own],
            )
            for (topology, own), graph, time in zip(models.items(), graphs, times, strict=True)
        ]

    def text(self, rows: Sequence[ComparisonRow]) -> str:
        """Return a title and the table of results, with mean and standard deviation over seeds."""
        epochs, seeds = pluralize(self.training.epochs, "epoch"), ", ".join(map(str, self.seeds))
        title = f"encoder topologies on {self.task.name}, at most {epochs}, seeds: {seeds}"
        head = ["encoder topology", "edges", "ms per batch", *_METRICS]
        cells = [
            [row.topology, three_digits(row.edges), three_digits(row.ms)]
            + [
                mean_and_deviation([found[metric] for found in row.evaluations], form.format)
                for metric, form in _METRICS.items()
            ]
            for row in rows
        ]
        table = plain_table([name.replace("_", " ") for name in head], cells)
        return f"{title}\n\n{table}"

    def _train(
        self, folder: Path, topology: str, seed: int, report: Callable[[str], None]
    ) -> UniversalTransformer:
        """Train a new run, and return its best model."""
        training = replace(self.training, seed=seed)
        torch.manual_seed(seed)
        model = UniversalTransformer(replace(self.config, encoder_topology=topology))
        Run.create(folder, self.task, training, model)
        model.to(self.device)
        torch.manual_seed(seed)

        def report_run(line: str) -> None:
            report(f"{topology}, seed {seed}: {line}")

        Trainer(model, self.task, training, folder, report_run).fit()
        return UniversalTransformer.from_pretrained(folder).to(self.device)

    def _pass(self, model: UniversalTransformer, graph: DGLGraph) -> None:
        """Run forward and backward over a batch of test pairs."""
        model.train()
        outcome = graph_outcome(model, graph)
        torch.autograd.backward(outcome.total_loss(self.training.ponder_weight))
        model.zero_grad()
        model.eval()
