from itertools import chain
from typing import Any

import pytest
import torch

from graphut._tokens import EOS
from graphut.experiments.tasks import Pair, Sort, Text
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


@pytest.mark.parametrize("metrics", [{"token_accuracy": 0.5}, {"wings": 2.0}])
def test_evaluation_refuses_other_metrics(metrics: dict[str, float]) -> None:
    known = {"sequence_accuracy": 0.5, "encoder_steps": 1.0, "decoder_steps": 1.0}
    evaluation = PairLearner.evaluation(**known, token_accuracy=0.75)
    assert list(evaluation.metrics) == list(PairLearner.metric_meanings)
    with pytest.raises(TypeError, match="the metrics are sequence_accuracy, token_accuracy, "):
        PairLearner.evaluation(**metrics)


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
