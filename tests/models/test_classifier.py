from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from graphut import UniversalTransformerClassifier, UniversalTransformerClassifierConfig
from graphut.nn.reference import dense_recurrence
from graphut.topology import Complete
from tests.helpers import assert_same, gradients
from tests.models.cases import CASES, build_classifier

FEATS = 8
DOCUMENTS = list(CASES["documents"].samples)


def plain_states(model: Any, document: list[list[int]]) -> Tensor:
    """The first state of each sentence, word by word."""
    states = []
    for sentence in document:
        state = torch.zeros(FEATS, dtype=torch.float64)
        for place, word in enumerate(sentence):
            state = state + model.mask[place] * model.embedding.weight[word] * FEATS**0.5
        states.append(state)
    return torch.stack(states)


@pytest.mark.parametrize(
    ("positions", "readout"), [("start", "last"), ("end", "mean"), ("fixed", "last")]
)
@pytest.mark.parametrize("halted", ["copied", "frozen", "stale", "running"])
def test_classifier_equals_the_dense_recurrence_over_masked_sums_of_words(
    halted: str, positions: str, readout: str
) -> None:
    model: Any = build_classifier(
        halted=halted, positions=positions, readout=readout, max_length=30
    )
    for document in DOCUMENTS:
        places = torch.arange(1, len(document) + 1)
        if positions == "fixed":
            places[-1] = 30
        first = plain_states(model, document)
        out, steps, *_ = dense_recurrence(
            model.encoder,
            Complete().graph([len(document)]),
            first,
            positions=places.flip(0) if positions == "end" else places,
        )
        found = model([document])
        read = out[-1:] if readout == "last" else out.mean(0, keepdim=True)
        expected = read @ model.output.weight.T + model.output.bias
        assert_same([found.logits], [expected])
        assert torch.equal(found.steps, steps)
        parameters = [model.mask, model.embedding.weight]
        assert_same(gradients([found.logits], parameters), gradients([expected], parameters))


@pytest.mark.parametrize("readout", ["last", "mean"])
@pytest.mark.parametrize("topology", ["complete", "(window:1|virtual:2)"])
def test_classifier_answers_after_every_step_as_with_no_more_steps(
    readout: str, topology: str
) -> None:
    model = build_classifier(readout=readout, topology=topology, rule="fixed", max_steps=4)
    answers = model(DOCUMENTS, get_steps=True).answers
    assert answers is not None and len(answers) == 4 and model(DOCUMENTS).answers is None
    for step, (documents, logits) in enumerate(answers, 1):
        model.max_steps = step
        assert documents.tolist() == [0, 1, 2]
        assert_same([logits], [model(DOCUMENTS).logits])


@pytest.mark.parametrize("readout", ["last", "mean"])
@pytest.mark.parametrize("topology", ["complete", "(window:1|virtual:2)"])
def test_classifier_answers_while_the_last_sentence_is_active(readout: str, topology: str) -> None:
    model = build_classifier(readout=readout, topology=topology, rule="act:weighting=last")
    output = model(DOCUMENTS, get_steps=True)
    assert output.answers is not None
    steps, needed = output.steps.split([3, 1, 2]), len(output.answers)
    assert needed == int(output.ponder.steps.max())
    compared = 0
    for step, (documents, logits) in enumerate(output.answers, 1):
        assert documents.tolist() == [n for n, own in enumerate(steps) if own[-1] >= step]
        done = [n for n in documents.tolist() if step == (own := steps[n])[-1] == own.max()]
        assert_same([logits[[documents.tolist().index(n) for n in done]]], [output.logits[done]])
        compared += len(done)
    assert compared


def test_classifier_tells_word_order_only_by_different_masks() -> None:
    model = build_classifier()
    one, other = [[[2, 3, 4], [5]]], [[[4, 2, 3], [5]]]
    assert not torch.allclose(model(one).logits, model(other).logits)
    torch.nn.init.ones_(model.mask)
    assert_same([model(one).logits], [model(other).logits])


def test_classifier_draws_masks_around_one() -> None:
    config = UniversalTransformerClassifierConfig(
        vocab_size=5, classes=2, d_model=64, longest_sentence=50
    )
    mask = UniversalTransformerClassifier(config).mask.detach()
    assert abs(float(mask.mean()) - 1) < 0.1 and abs(float(mask.std()) - 1) < 0.1
    ones = UniversalTransformerClassifier(replace(config, mask_init="ones")).mask
    assert bool((ones == 1).all())


def test_classifier_predict_follows_the_logits_and_restores_the_mode() -> None:
    model = build_classifier(dropout=0.5).train()
    found = model.predict(DOCUMENTS)
    assert model.training and model.encoder.training
    output = model.eval()(DOCUMENTS)
    expected = output.logits.float().log_softmax(-1)
    for each, likely in zip(found, expected, strict=True):
        assert each.label == int(likely.argmax())
        assert each.log_probabilities == pytest.approx(likely.tolist(), abs=1e-6)
    assert [each.steps for each in found] == [p.tolist() for p in output.steps.split([3, 1, 2])]
