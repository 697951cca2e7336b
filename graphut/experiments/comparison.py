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


def compare_topologies(
    topologies: Sequence[str],
    task: PairTask,
    training: TrainingConfig,
    config: UniversalTransformerConfig,
    folder: str | Path,
    *,
    seeds: Sequence[int] = (0,),
    device: torch.device = CPU,
    report: Callable[[str], None] = print,
) -> list[ComparisonRow]:
    """Train, evaluate and time a model for each encoder topology and each seed.

    `topologies` are specs, such as "window:3|global:0"; they and `seeds` replace the values in
    `config` and `training`. The run of the first topology with seed 0 is saved in the folder
    `1-seed-0`, and so on. `report` receives the lines that the trainers print. Raise `ValueError`
    if the model does not support a topology or a value occurs twice, and `FileExistsError` if there
    is a run already.
    """
    for name, values in (("topologies", topologies), ("seeds", seeds)):
        if not values or len({*values}) < len(values):
            raise ValueError(f"{name} must be different values, at least one; got {[*values]}")
    configs = [replace(config, encoder_topology=topology) for topology in topologies]

    def train(number: int, seed: int) -> UniversalTransformer:
        torch.manual_seed(seed)
        model = UniversalTransformer(configs[number])
        own, path = replace(training, seed=seed), Path(folder, f"{number + 1}-seed-{seed}")
        Run.create(path, task, own, model)
        model.to(device)
        torch.manual_seed(seed)
        begin = f"{topologies[number]}, seed {seed}: "
        Trainer(model, task, own, path, lambda line: report(begin + line)).fit()
        return UniversalTransformer.from_pretrained(path).to(device)

    def run(model: UniversalTransformer, graph: DGLGraph) -> None:
        model.train()
        torch.autograd.backward(graph_outcome(model, graph).total_loss(training.ponder_weight))
        model.zero_grad()
        model.eval()

    models = [[train(number, seed) for seed in seeds] for number in range(len(topologies))]
    pairs = task.test[: training.batch_size]
    graphs = [own[0].sentence_graph(*zip(*pairs, strict=True)) for own in models]
    rows = zip(topologies, models, graphs, strict=True)
    passes = {topology: partial(run, own[0], graph) for topology, own, graph in rows}
    times = measure("a batch", passes, repeats=5, device=device)
    return [
        ComparisonRow(
            topology,
            graph.num_edges(ENCODE) / len(pairs),
            time["ms"],
            [evaluate(model, task, task.test) for model in own],
        )
        for topology, own, graph, time in zip(topologies, models, graphs, times, strict=True)
    ]


def comparison_text(rows: Sequence[ComparisonRow]) -> str:
    """Return the table of results, with mean and standard deviation over the seeds."""
    head = ["encoder topology", "edges", "ms per batch", *(n.replace("_", " ") for n in _METRICS)]
    cells = [
        [row.topology, three_digits(row.edges), three_digits(row.ms)]
        + [
            mean_and_deviation([found[metric] for found in row.evaluations], form.format)
            for metric, form in _METRICS.items()
        ]
        for row in rows
    ]
    return plain_table(head, cells)
