from dataclasses import fields
from itertools import chain
from typing import Any

import pytest
import torch

from graphut._tokens import EOS
from graphut.experiments.tasks import TASKS, Copy, Graphs, Pair, Sort, Text
from graphut.experiments.training import TrainingConfig, learner_of
from graphut.experiments.training.learners.sequences import PairLearner, TranslationLearner
from graphut.experiments.training.learners.texts import TextLearner
from tests.experiments.training.learners.small_models import evaluation_of, small_model
from tests.experiments.training.learners.test_texts import Counting

LEARNER = PairLearner
TASK = Sort(mean_length=4, held_out=120)  # more than a batch


@pytest.mark.parametrize("adaptive", [True, False])
@pytest.mark.parametrize(("batch_size", "size"), [(64, 100), (16, 64)])
def test_count_flops_sums_the_ponders_of_all_batches(
    adaptive: bool, batch_size: int, size: int
) -> None:
    model = small_model(LEARNER, TASK, adaptive=adaptive, dropout=0.5)
    counts = LEARNER(model, {}).count_flops(TASK.test, batch_size)
    assert model.training

    model.eval()
    done = everything = right = labels = 0
    # What a halted node is projected for depends on the longest in its batch.
    for batch in (TASK.test[:size], TASK.test[size:]):
        graph = model.sentence_graph(*zip(*batch, strict=True))
        output, target = model(graph), graph.nodes["target"].data["label"]
        right += int((output.logits.argmax(-1) == target).sum())
        labels += len(target)
        for ponder in (output.encoder, output.decoder):
            done += int(ponder.flops)
            everything += int(ponder.all_flops)
    assert counts == {
        "flops_per_example": done / len(TASK.test),
        "flops_share": done / everything,
        "fed_accuracy": right / labels,
    }
    assert (counts["flops_share"] < 1) == adaptive


PAIRS: list[Pair] = [([2, 3, 4], [2, 3, 4]), ([9], [9, 9])]
TEXTS = [Text([3, 4, 5]), Text([6, 1]), Text([7, 7, 7, 8], context=2)]


def labels_of(example: Any) -> list[int]:
    return example.tokens if isinstance(example, Text) else [*example[1], EOS]


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize(
    ("learner", "task", "batch", "call"),
    [
        (PairLearner, TASK, PAIRS, lambda model, pair: model([pair[0]], [pair[1]])),
        (TextLearner, Counting(), TEXTS, lambda model, text: model([text.tokens], ends=False)),
    ],
)
def test_outcome_equals_the_formula(
    learner: Any, task: Any, batch: list[Any], call: Any, smoothing: float
) -> None:
    model = small_model(learner, task, d_model=8, d_hidden=8)
    logits = torch.cat([call(model, example).logits for example in batch])
    labels = torch.tensor([*chain.from_iterable(map(labels_of, batch))])
    logs = logits.log_softmax(-1)
    likely = logs[torch.arange(len(labels)), labels]
    outcome = learner(model, {}).outcome(batch, smoothing)
    loss = -((1 - smoothing) * likely + smoothing * logs.mean(-1)).mean()
    torch.testing.assert_close(outcome.loss, loss)
    assert (outcome.labels, outcome.correct) == (len(labels), (logs.argmax(-1) == labels).sum())


@pytest.mark.parametrize(
    ("learner", "better", "worse", "score", "said"),
    [
        (PairLearner, (0.6, 0.8, 9, 9), (0.5, 0.9, 1, 1), 0.6, "60.00%, token accuracy 80."),
        (PairLearner, (0.6, 0.9, 9, 9), (0.6, 0.8, 1, 1), 0.6, ", steps 9.00/9.00"),
        (TextLearner, (1.5, 0.2, 3), (1.6, 0.9, 1), 0.2, "perplexity 4.482, 2.1640 bits per"),
        (TranslationLearner, (30.1, 0.1, 0.1, 1, 1), (30.0, 0.9, 0.9, 1, 1), 0.301, "BLEU 30.10"),
    ],
)
def test_evaluations_are_ranked(
    learner: Any, better: Any, worse: Any, score: float, said: str
) -> None:
    first, second = evaluation_of(learner, *better), evaluation_of(learner, *worse)
    assert first.rank > second.rank and said in str(first)
    assert first.score == pytest.approx(score, abs=1e-4)


@pytest.mark.parametrize("name", TASKS)
def test_fields_of_task_training_and_model_have_different_names(name: str) -> None:
    """All of them are options of `graphut train`."""
    kinds: list[Any] = [TASKS[name], TrainingConfig, TASKS[name].config_kind]
    names = [field.name for kind in kinds for field in fields(kind)]
    assert len(names) == len(set(names))


def test_learner_of_a_task_with_its_own() -> None:
    class Backwards(Copy):
        learner = TextLearner

    assert learner_of(Copy()) is learner_of(Copy) is PairLearner
    assert learner_of(Backwards) is TextLearner


@pytest.mark.parametrize("task", [*TASKS.values(), Graphs("x"), Graphs("x", target="values")])
def test_class_variables_of_tasks_name_existing_fields_and_metrics(task: Any) -> None:
    assert set(task.from_data) <= {field.name for field in fields(task.config_kind)}
    if not isinstance(task.choices, property):
        assert {*task.choices} <= learner_of(task).metric_meanings.keys()
