from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from graphut.models import UniversalTransformer
from graphut.models.recurrence import make_recurrence
from graphut.nn import (
    ACT,
    Convergence,
    CopyGate,
    FixedDepth,
    InputNoise,
    PonderNet,
    Sampled,
    SeparableConvTransition,
)
from tests.helpers import covering, name_of
from tests.models.cases import (
    SOURCES,
    TARGETS,
    assert_same_generations,
    build_model,
    logits_of,
    plain_greedy,
    small,
)


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
def test_make_recurrence_lets_only_extra_nodes_have_no_cross_edges(
    spec: str, may_be_empty: bool
) -> None:
    step = UniversalTransformer(small(decoder_topology=spec)).decoder.step
    assert step.cross_attention is not None
    assert step.cross_attention.allow_zero_in_degree == may_be_empty
    assert not step.attention.allow_zero_in_degree


@pytest.mark.parametrize("transition", ["positionwise", "sepconv"])
def test_make_recurrence_drops_hidden_features_of_the_feed_forward_layer(transition: str) -> None:
    config = small(transition=transition, activation_dropout=0.25)
    [drop] = [m for m in make_recurrence(config).step.transition.modules() if type(m) is nn.Dropout]
    assert drop.p == 0.25


def test_make_recurrence_has_geometric_attention_in_encoders_and_a_gate_in_all() -> None:
    config = small(geometric_attention=True, copy_gate=True, activation_dropout=0.25)
    encoder = make_recurrence(config).step
    decoder = make_recurrence(config, causal=True, cross_attention=True).step
    assert encoder.attention.direction is not None and decoder.attention.direction is None
    assert decoder.cross_attention is not None and decoder.cross_attention.direction is None
    for step in (encoder, decoder):
        assert isinstance(step.copy_gate, CopyGate) and step.copy_gate.layers[2].p == 0.25


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


def test_make_recurrence_gives_each_layer_its_own_weights() -> None:
    part = make_recurrence(small(share_weights=False, adaptive=False), cross_attention=True)
    assert len(set(part.step)) == part.max_steps == 5
    assert all(step.cross_attention is not None for step in part.step)


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


NAMES = ("sinusoidal", "sinusoidal0", "learned", "none")
SIGNALLED = covering(
    position_signal=NAMES,
    step_signal=NAMES,
    inject_input=(True, False),
    add_bos_eos=(False, True),
    max_offset=(0, 3),
    attention_bias=(False, True),
)


@pytest.mark.parametrize("row", SIGNALLED, ids=name_of)
def test_make_recurrence_gives_training_decoding_and_folders_the_same_signals(
    row: dict[str, Any], tmp_path: Path
) -> None:
    model = build_model(**row)
    found = model.generate(SOURCES, max_length=3)
    assert_same_generations(found, [plain_greedy(model, source, 3) for source in SOURCES])
    model.save_pretrained(tmp_path)
    assert torch.equal(logits_of(UniversalTransformer.from_pretrained(tmp_path)), logits_of(model))
    model.train()(SOURCES, TARGETS).logits.sum().backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None or not name.endswith("_signal.weight")


def test_make_recurrence_takes_noise_eps_and_biases() -> None:
    part = make_recurrence(small(noise=0.3, norm_eps=1e-6, attention_bias=False))
    assert part.noise == InputNoise(0.3) and part.step.attention_norm.eps == 1e-6
    assert all(layer.bias is None for layer in part.step.attention.children())
    every = make_recurrence(small(noise=0.3, inject_input=True, noise_on="every_step"))
    assert every.noise == InputNoise(0.3, "every_step") and every.inject_input
    assert make_recurrence(small()).noise is None


@pytest.mark.parametrize("add_bos_eos", [False, True])
def test_learned_positions_reach_as_far_as_the_longest_sentence(add_bos_eos: bool) -> None:
    options = {"max_length": 6, "max_offset": 2, "add_bos_eos": add_bos_eos}
    model = build_model(position_signal="learned", **options).train()
    longest = [2] * (4 if add_bos_eos else 6)
    for _ in range(20):
        model([longest], [[2] * 5])
    with pytest.raises(ValueError, match="has 7 tokens, but the model takes at most 6"):
        model([[*longest, 2]], [[2]])


def test_learned_steps_keep_their_number_in_a_folder(tmp_path: Path) -> None:
    model = build_model(step_signal="learned")
    model.max_steps = 2
    model.save_pretrained(tmp_path)
    again = UniversalTransformer.from_pretrained(tmp_path)
    assert again.max_steps == 5
    again.max_steps = 6
    with pytest.raises(ValueError, match="of size 5 has rows for 1 to 5, not for 6"):
        logits_of(again)


def test_max_steps_of_a_plain_transformer_cannot_change() -> None:
    model = build_model(share_weights=False, adaptive=False)
    with pytest.raises(ValueError, match="max_steps cannot become 3"):
        model.max_steps = 3
    assert model.max_steps == 5
