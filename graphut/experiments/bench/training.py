"""The benchmark of training: models of graphut, and the same models in plain torch with padding."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from graphut._tokens import EOS
from graphut.experiments.bench.driver import Row, largest_error, measure_equal, say
from graphut.experiments.bench.options import TrainOptions
from graphut.experiments.bench.plain_torch import PlainModel
from graphut.experiments.tasks import TASKS, PairTask, Text, preset_of
from graphut.experiments.training import TrainingConfig, learner_of

_BATCHES = 4
_NAMES = ("graphut", "plain torch", "compiled")
Batch = tuple[list[list[int]], list[list[int]]]
"""Sources and targets without `<eos>`; a language model does not read the sources."""
Model = tuple[Any, Callable[[Batch], Tensor]]
"""A model in training mode, and its loss."""


class Workload(NamedTuple):
    """A workload: a task with the size of its vocabulary, and the lengths of random sentences."""

    task: str
    vocabulary: int
    mean_length: float  # in tokens
    deviation: float  # of the lengths
    # Biases of the halting units, with which models take about as many steps as after training.
    biases: Mapping[str, float]


WORKLOADS = {
    "translation": Workload("multi30k", 8002, 15, 5, {"encoder": -0.3, "decoder": -6.0}),
    "sorting": Workload("sort", 28, 10, 3, {"encoder": 4.0, "decoder": 0.5}),
    "characters": Workload("char-lm", 65, 128, 0, {"decoder": 0.0}),
}


def bench_training(options: TrainOptions) -> list[Row]:
    """Compare the time of an update: forward and backward pass, clipping and AdamW.

    The models have the sizes, the dropout and the halting rule of the preset `small` of a task, and
    the same weights; the data are random tokens. Losses and gradients are compared without dropout.
    """
    rows: list[Row] = []
    for name in options.workloads:
        workload = WORKLOADS[name]
        preset = preset_of(workload.task, "small")
        training = TrainingConfig(**_own(TrainingConfig, preset))
        batches = _batches(workload, training.batch_size)
        off = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
        exact = _models(workload, preset | off, training)
        error = largest_error(*(_gradients(*model, batches[0]) for model in exact))
        text = f"{name}, {training.batch_size} sentences, {preset['d_model']} features"
        learner = learner_of(TASKS[workload.task])(exact[0][0], {})
        with torch.no_grad():
            outcome = learner.outcome(_examples(workload, batches[0]), 0.0)
            ponders = outcome.ponders.values()
        text += f", {'/'.join(f'{x.steps.double().mean():.1f}' for x in ponders)} steps"
        say(text)
        models = _models(workload, preset, training)
        if options.compiled:
            models.append(_models(workload, preset, training)[1])
            for part in _parts(models[2][0]):
                part.layer.compile(dynamic=True)
        runs = {
            each: partial(_update_all, model, batches)
            for each, model in zip(_NAMES, models, strict=False)
        }
        rows += measure_equal(text, runs, {"graphut": error}, repeats=options.repeats)
    times = ("ms", "lower_ms", "upper_ms")
    return [row | {each: row[each] / _BATCHES for each in times if each in row} for row in rows]


def _own(kind: type[Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are named like a field of the dataclass `kind`."""
    return {field.name: options[field.name] for field in fields(kind) if field.name in options}


def _batches(workload: Workload, size: int) -> list[Batch]:
    """Return batches of `size` pairs of random token lists; a target is as long as its source."""
    random, batches = np.random.default_rng(0), list[Batch]()
    for _ in range(_BATCHES):
        drawn = random.normal(workload.mean_length, workload.deviation, size)
        lengths = drawn.round().clip(2).astype(int)
        draw: Any = partial(random.integers, EOS + 1, workload.vocabulary)
        sources, targets = ([draw(n).tolist() for n in lengths] for _ in range(2))
        batches.append((sources, targets))
    return batches


def _examples(workload: Workload, batch: Batch) -> list[Any]:
    is_pairs = issubclass(TASKS[workload.task], PairTask)
    return [*zip(*batch, strict=True)] if is_pairs else [*map(Text, batch[1])]


def _models(
    workload: Workload, options: Mapping[str, Any], training: TrainingConfig
) -> list[Model]:
    """Return a model of graphut and the same model in plain torch, each with its loss function."""
    torch.manual_seed(0)
    task = TASKS[workload.task]
    kind = learner_of(task)
    sizes = dict.fromkeys(task.from_data, workload.vocabulary)
    config = task.config_kind(**_own(task.config_kind, options) | sizes | {"halting_gain": 0.3})
    ours: Any = kind.model_kind(config).train()
    for part, bias in workload.biases.items():
        nn.init.constant_(getattr(ours, part).halting.linear.bias, bias)
    learner = kind(ours, {})
    plain, smoothing, weight = PlainModel(ours), training.label_smoothing, training.ponder_weight

    def loss(batch: Batch) -> Tensor:
        return learner.outcome(_examples(workload, batch), smoothing).total_loss(weight)

    def plain_loss(batch: Batch) -> Tensor:
        sources, targets = batch
        labels = [[*x, EOS] for x in targets] if issubclass(task, PairTask) else targets
        cross_entropy, cost = plain(labels, sources, smoothing)
        return cross_entropy + weight * cost

    return [(ours, loss), (plain, plain_loss)]


def _gradients(model: Any, loss: Callable[[Batch], Tensor], batch: Batch) -> list[Tensor]:
    """Return the loss, and the gradients of the output weights and of the halting weights."""
    value = loss(batch)
    value.backward()
    weights = [model.output.weight, *(part.halting.linear.weight for part in _parts(model))]
    return [value.detach(), *(weight.grad for weight in weights)]


def _parts(model: Any) -> list[Any]:
    return [part for part in (getattr(model, "encoder", None), model.decoder) if part is not None]


def _update_all(model: Model, batches: Sequence[Batch]) -> None:
    """Train a model with a new optimizer, one update for each batch."""
    weights, loss = [*model[0].parameters()], model[1]
    optimizer = torch.optim.AdamW(weights, fused=True)
    for batch in batches:
        optimizer.zero_grad()
        loss(batch).backward()
        clip_grad_norm_(weights, 1.0)
        optimizer.step()
