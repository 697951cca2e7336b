from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from graphut.models import UniversalTransformer
from graphut.models.recurrence import make_recurrence
from graphut.nn import (
    ACT,
    Convergence,
    FixedDepth,
    PonderNet,
    Sampled,
    SeparableConvTransition,
)
from graphut.nn.recurrence import adaptive_loop
from tests.models.cases import SOURCES, build_model, logits_of, small


def test_make_recurrence_makes_a_causal_decoder_with_cross_attention() -> None:
    config = small(transition="sepconv", kernel_size=5)
    encoder = make_recurrence(config)
    decoder = make_recurrence(config, causal=True, cross_attention=True)
    for part, causal in ((encoder, False), (decoder, True)):
        transition = part.step.transition
        assert isinstance(transition, SeparableConvTransition)
        assert (transition.causal, transition.kernel_size) == (causal, 5)
        assert (part.step.cross_attention is not None) == causal


@pytest.mark.parametrize(
    ("spec", "may_be_empty"), [("causal", False), ("star&causal", True), ("window:1&causal", False)]
)
def test_make_recurrence_lets_only_extra_nodes_see_no_source(spec: str, may_be_empty: bool) -> None:
    step = UniversalTransformer(small(decoder_topology=spec)).decoder.step
    assert step.cross_attention is not None
    assert step.cross_attention.allow_zero_in_degree == may_be_empty
    assert not step.attention.allow_zero_in_degree


def test_make_recurrence_follows_the_configuration() -> None:
    part = make_recurrence(small(max_steps=7, halted="stale", rule="act:threshold=0.5"))
    assert (part.max_steps, part.halted, part.rule) == (7, "stale", ACT(threshold=0.5))
    assert part.halting is not None and part.halting.norm is None
    part = make_recurrence(small(rule="ponder_net", evaluation_rule="sampled", halting_norm=True))
    assert (part.rule, part.evaluation_rule) == (PonderNet(), Sampled())
    assert isinstance(part.halting.norm, nn.LayerNorm)
    part = make_recurrence(small(adaptive=False, evaluation_rule="convergence:tol=0.1"))
    assert part.halting is None
    assert (part.rule, part.evaluation_rule) == (FixedDepth(), Convergence(0.1))


def test_make_recurrence_gives_each_layer_its_weights() -> None:
    part = make_recurrence(small(share_weights=False, adaptive=False), cross_attention=True)
    assert [adaptive_loop(part).step(t) for t in range(1, 6)] == list(part.step)
    assert all(step.cross_attention is not None for step in part.step)
    with pytest.raises(ValueError, match=r"^share_weights must be True where adaptive is.*; got F"):
        small(share_weights=False)


def test_make_recurrence_scales_all_attention_by_degree_or_none() -> None:
    for scaled in (True, False):
        names = [name for name, _ in build_model(scale_by_degree=scaled).named_parameters()]
        found = [name for name in names if name.endswith("degree_scale")]
        layers = (
            "encoder.step.attention",
            "decoder.step.attention",
            "decoder.step.cross_attention",
        )
        assert found == [f"{layer}.degree_scale" for layer in layers if scaled]


@pytest.mark.parametrize("share_weights", [True, False])
def test_make_recurrence_goes_through_a_folder(tmp_path: Path, share_weights: bool) -> None:
    options = {"share_weights": share_weights, "scale_by_degree": True, "norm": "pre"}
    model = build_model(adaptive=share_weights, **options)
    model.save_pretrained(tmp_path)
    again = UniversalTransformer.from_pretrained(tmp_path)
    assert again.config == model.config
    assert torch.equal(logits_of(again), logits_of(model))
    assert again.generate(SOURCES) == model.generate(SOURCES)


def test_max_steps_of_a_plain_transformer_cannot_change() -> None:
    model = build_model(share_weights=False, adaptive=False)
    with pytest.raises(ValueError, match="max_steps cannot become 3"):
        model.max_steps = 3
    assert model.max_steps == 5
