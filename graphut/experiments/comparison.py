"""Train the same model with several attention topologies, and tabulate the results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from graphut.experiments.bench.driver import CPU, measure
from graphut.experiments.tables import (
    is_share,
    mean_and_deviation,
    percent,
    plain_table,
    three_digits,
)
from graphut.experiments.tasks import Task
from graphut.experiments.training import (
    Evaluation,
    Run,
    Trainer,
    TrainingConfig,
    learner_of,
)
from graphut.experiments.training.learner import AnyLearner
from graphut.models.checked_config import check_different
from graphut.models.config import ModelConfig


@dataclass(frozen=True)
class ComparisonRow:
    """The results for one topology (which nodes attend to which): one model for each seed."""

    topology: str
    edges: float  # per sentence or graph, averaged over a batch
    ms: float  # median time to build the graph of a batch, and for a forward and backward pass
    evaluations: list[Evaluation]  # of the best model of each seed on the test set


def compare_topologies(
    topologies: Sequence[str],
    task: Task,
    training: TrainingConfig,
    config: ModelConfig,
    folder: str | Path,
    *,
    seeds: Sequence[int] = (0,),
    device: torch.device = CPU,
    report: Callable[[str], None] = print,
    imports: Sequence[str] = (),
    task_name: str | None = None,
) -> list[ComparisonRow]:
    """Train, evaluate and time a model for each topology and each seed; return a row for each.

    A topology, such as "window:3|global:0", replaces that of the encoder in a sequence-to-sequence
    model's `config`, and `topology` of others. The run of the first topology with seed 0 is saved
    in `folder/1-seed-0`, and so on. `report` gets each line of output. `imports` are modules that
    commands import before they read the runs, and `task_name` is the key of the task in `TASKS`.
    Raise `ValueError` for a topology or seed that is wrong or occurs twice, and `FileExistsError`
    if a folder already holds a run.
    """
    check_different("topologies", topologies)
    check_different("seeds", seeds)
    changes: list[dict[str, Any]] = [{config.varied: topology} for topology in topologies]
    configs = [replace(config, **change) for change in changes]
    trainings = [replace(training, seed=seed) for seed in seeds]
    kind, batch = learner_of(task), task.test[: training.batch_size]

    def train(number: int, options: TrainingConfig) -> AnyLearner:
        torch.manual_seed(options.seed)
        model = kind.model_kind(configs[number])
        path = Path(folder, f"{number + 1}-seed-{options.seed}")
        Run.create(path, task, options, model, imports=imports, task_name=task_name)
        model.to(device)
        torch.manual_seed(options.seed)
        begin = f"{topologies[number]}, seed {options.seed}: "
        Trainer(model, task, options, path, lambda line: report(begin + line)).fit()
        return kind(kind.model_kind.from_pretrained(path).to(device), task.vocabularies)

    def run(learner: AnyLearner) -> None:
        learner.model.train()
        loss = learner.outcome(batch, 0.0).total_loss(training.ponder_weight)
        torch.autograd.backward(loss)
        learner.model.zero_grad()
        learner.model.eval()

    def edges(learner: AnyLearner) -> float:
        first, *_ = learner.outcome(batch, 0.0).ponders.values()
        return first.layouts[0].num_edges / len(batch)

    learners = [
        [train(number, options) for options in trainings] for number in range(len(topologies))
    ]
    firsts = [of_seeds[0] for of_seeds in learners]
    passes = {name: partial(run, first) for name, first in zip(topologies, firsts, strict=True)}
    times = [row["ms"] for row in measure("a batch", passes, repeats=5, device=device)]
    evaluations = [
        [each.evaluate_in_detail(task.test)[0] for each in of_seeds] for of_seeds in learners
    ]
    columns = topologies, map(edges, firsts), times, evaluations
    return [*map(ComparisonRow, *columns)]


def comparison_text(rows: Sequence[ComparisonRow]) -> str:
    """Return a text table of the rows, with each metric's mean and deviation over the seeds."""
    metrics = [*rows[0].evaluations[0].metrics]
    head = ["topology", "edges", "ms per batch", *(name.replace("_", " ") for name in metrics)]
    forms = [percent if is_share(name) else three_digits for name in metrics]
    cells = []
    for row in rows:
        columns = ([evaluation[metric] for evaluation in row.evaluations] for metric in metrics)
        measured = ([value for value in column if value is not None] for column in columns)
        figures = three_digits(row.edges), three_digits(row.ms)
        cells.append([row.topology, *figures, *map(mean_and_deviation, measured, forms)])
    return plain_table(head, cells)
