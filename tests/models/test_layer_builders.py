from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from graphut.models import UniversalTransformer
from graphut.models.layer_builders import make_recurrence
from graphut.nn import (
    ACT,
    Convergence,
    FixedDepth,
    InputNoise,
    MultiHeadAttention,
    PonderNet,
    Threshold,
)
from tests.helpers import covering, name_of, refuses
from tests.models.cases import (
    SOURCES,
    TARGETS,
    assert_decodes_as_forward,
    build_model,
    logits_of,
    small,
)


def test_make_recurrence_follows_the_configuration() -> None:
    def made(**options: Any) -> Any:
        return make_recurrence(small(**options))

    assert made(max_steps=7).max_steps == 7
    assert made(halted="stale").halted == "stale"
    assert made(rule="act:threshold=0.5").rule == ACT(threshold=0.5)
    plain, fixed = made(), made(adaptive=False, evaluation_rule="convergence:tol=0.1")
    assert plain.noise is fixed.halting is None
    assert (fixed.rule, fixed.evaluation_rule) == (FixedDepth(), Convergence(0.1))
    ponder = made(rule="ponder_net", evaluation_rule="threshold")
    assert (ponder.rule, ponder.evaluation_rule) == (PonderNet(), Threshold())
    assert made(noise=0.3).noise == InputNoise(0.3)
    every_step = made(noise=0.3, inject_input=True, noise_on="every_step")
    assert every_step.noise == InputNoise(0.3, "every_step")
    sepconv = {"transition": "sepconv", "kernel_size": 5}
    assert made(**sepconv).step.transition.kernel_size == 5
    for shape in ({}, sepconv):
        transition = made(activation_dropout=0.25, **shape).step.transition
        assert [part.p for part in transition.modules() if type(part) is nn.Dropout] == [0.25]


@pytest.mark.parametrize(
    ("option", "value", "read"),
    [
        ("scale_by_degree", True, lambda layer: layer.degree_scale is not None),
        (
            "symmetric_init",
            True,
            lambda layer: layer.key_value.weight[:8].equal(layer.query.weight),
        ),
    ],
)
def test_make_recurrence_sets_all_attention_layers(
    option: str, value: bool, read: Callable[[MultiHeadAttention], bool]
) -> None:
    for given in (value, not value):
        model = UniversalTransformer(small(**{option: given}))
        layers = [part for part in model.modules() if isinstance(part, MultiHeadAttention)]
        assert [read(layer) for layer in layers] == [given == value] * 3


def test_make_recurrence_lets_only_extra_nodes_have_no_cross_edges() -> None:
    for spec, may_be_empty in (("causal", False), ("star&causal", True)):
        step: Any = UniversalTransformer(small(decoder_topology=spec)).decoder.step
        assert step.cross_attention.allow_zero_in_degree == may_be_empty
        assert not step.attention.allow_zero_in_degree


def test_make_recurrence_gives_each_layer_its_own_weights() -> None:
    part = make_recurrence(small(share_weights=False, adaptive=False), cross_attention=True)
    assert len(set(part.step)) == part.max_steps == 5
    assert all(step.cross_attention is not None for step in part.step)


NAMES = ("sinusoidal", "sinusoidal0", "none")
SIGNALLED = covering(
    position_signal=NAMES,
    step_signal=NAMES,
    inject_input=(True, False),
    add_bos_eos=(False, True),
    max_offset=(0, 3),
    halted=("copied", "frozen", "stale", "running"),
    norm=("post", "pre"),
)


@pytest.mark.parametrize("row", SIGNALLED, ids=name_of)
def test_make_recurrence_gives_training_decoding_and_folders_the_same_signals(
    row: dict[str, Any], tmp_path: Path
) -> None:
    model = build_model(**row)
    assert_decodes_as_forward(model, SOURCES, 3)
    model.save_pretrained(tmp_path)
    assert torch.equal(logits_of(UniversalTransformer.from_pretrained(tmp_path)), logits_of(model))
    model.train()(SOURCES, TARGETS).logits.sum().backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None or not name.endswith("_signal.weight")


def test_max_steps_of_a_plain_transformer_cannot_change() -> None:
    model = build_model(share_weights=False, adaptive=False)
    refuses("max_steps cannot become 3", setattr, model, "max_steps", 3)
    assert model.max_steps == 5
