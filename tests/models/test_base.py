from __future__ import annotations

import pytest
import torch

from graphut.models import UniversalTransformer
from graphut.models.base import AdaptiveModel
from graphut.models.config import ModelConfig
from graphut.nn import PonderNet, Quantile, Threshold
from tests.models.cases import (
    SOURCES,
    assert_same_generations,
    build_model,
    logits_of,
    plain_greedy,
    small,
)


@pytest.fixture
def model() -> UniversalTransformer:
    return build_model()


def test_max_steps_refuses_a_wrong_value(model: UniversalTransformer) -> None:
    model.max_steps = 0
    with pytest.raises(ValueError, match=r"max_steps must .*0"):
        model.generate(SOURCES)
    with pytest.raises(ValueError, match=r"max_steps must .*0"):
        model.save_pretrained("nowhere")


def test_rules_are_those_of_all_recurrences(model: UniversalTransformer) -> None:
    model.rule = PonderNet()
    assert model.evaluation_rule == model.encoder.evaluation_rule == Quantile()
    model.evaluation_rule = Threshold(0.3)
    assert model.decoder.active_rule == Threshold(0.3)
    assert model.train().decoder.active_rule == model.encoder.rule == PonderNet()
    with pytest.raises(TypeError, match=r"a rule is a HaltingRule such as ACT.*, got 'act'"):
        model.rule = "act"  # type: ignore[assignment]


def test_adaptive_model_takes_another_default_dtype() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        model = UniversalTransformer(small()).eval()
        assert {parameter.dtype for parameter in model.parameters()} == {torch.float64}
        assert logits_of(model).dtype == torch.float64
        for beam_size in (1, 2):
            model.generate(SOURCES, max_length=3, beam_size=beam_size)
    finally:
        torch.set_default_dtype(torch.float32)
    assert logits_of(model).dtype == torch.float64
    expected = [plain_greedy(model, source, 4) for source in SOURCES]
    assert_same_generations(model.generate(SOURCES, max_length=4), expected)


def test_reset_parameters_draws_all_anew(model: UniversalTransformer) -> None:
    before = [parameter.clone() for parameter in model.parameters()]
    torch.manual_seed(0)
    model.reset_parameters()
    again = [parameter.clone() for parameter in model.parameters()]
    assert not any(torch.equal(a, b) for a, b in zip(before, again, strict=True))
    torch.manual_seed(0)
    model.reset_parameters()
    assert all(torch.equal(a, b) for a, b in zip(again, model.parameters(), strict=True))


def test_evaluating_restores_the_mode_of_every_module(model: UniversalTransformer) -> None:
    model.train()
    model.decoder.eval()
    before = [part.training for part in model.modules()]
    with model.evaluating():
        assert not any(part.training for part in model.modules())
    assert [part.training for part in model.modules()] == before


def test_adaptive_model_refuses_the_configuration_of_another() -> None:
    class Model(AdaptiveModel):
        config_class = type(small())

    with pytest.raises(TypeError, match="Model takes a UniversalTransformerConfig, got a ModelC"):
        Model(ModelConfig())
