from __future__ import annotations

import json
import re
from typing import Any

import pytest

from graphut.models import UniversalTransformerConfig, UniversalTransformerLMConfig
from graphut.models.config import UniversalGraphTransformerConfig, UniversalTransformerPointerConfig
from graphut.nn import ACT, HALTING_PRESETS, parse_rule
from tests.models.cases import small

STAR = "star&causal"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("source_vocab", 2),
        ("target_vocab", 0),
        ("d_model", 0),
        ("d_model", 8.0),
        ("d_model", "8"),
        ("num_heads", 3),
        ("num_heads", -1),
        ("d_hidden", 0),
        ("kernel_size", 0),
        ("max_steps", 0),
        ("max_steps", 1_000_001),
        ("max_steps", True),
        ("max_length", 0),
        ("max_offset", -1),
        ("spread_positions", True),  # max_offset is 0
        ("frame_source", 1),
        ("source_positions", "end"),
        ("restart_after", -1),
        ("restart_after", 100),  # of a smaller vocabulary
        ("rule", None),
        ("evaluation_rule", 3),
        ("halting_norm", "yes"),
        ("halting_bias", float("inf")),
        ("halting_bias", None),
        ("halting_gain", -0.5),
        ("norm_eps", 0.0),
        ("noise", -0.1),
        ("position_signal", "sine"),
        ("step_signal", None),
        ("inject_input", 1),
        ("dropout", 1.0),
        ("dropout", -0.1),
        ("attention_dropout", 1),
        ("transition", "convolution"),
        ("norm", "layer"),
        ("halted", "asleep"),
        ("adaptive", 1),
        ("tie_output", "yes"),
        ("encoder_topology", None),
        ("decoder_topology", "complete"),
        ("decoder_topology", "window:1"),
        ("decoder_topology", "star"),
        ("decoder_topology", "causal|virtual:1"),
        ("cross_topology", "star"),
    ],
)
def test_config_quotes_a_wrong_value(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be .*{re.escape(repr(value))}"):
        small(**{name: value})


@pytest.mark.parametrize("name", ["encoder_topology", "decoder_topology", "cross_topology"])
def test_config_quotes_an_unknown_topology(name: str) -> None:
    with pytest.raises(ValueError, match="zigzag"):
        small(**{name: "zigzag:3"})


def test_config_refuses_an_even_kernel_of_sepconv() -> None:
    assert small(kernel_size=4).kernel_size == 4
    with pytest.raises(ValueError, match="kernel_size must be odd; got 4"):
        small(transition="sepconv", kernel_size=4)


@pytest.mark.parametrize("name", ["encoder_topology", "decoder_topology"])
def test_config_refuses_sepconv_with_extra_nodes(name: str) -> None:
    spec = "binary_partition:2&causal"
    assert small(**{name: spec}).transition == "positionwise"
    with pytest.raises(ValueError, match=r"^transition must be 'positionwise' where a topology"):
        small(transition="sepconv", **{name: spec})


@pytest.mark.parametrize(
    "other",
    [{"source_positions": "both"}, {"encoder_topology": "star"}, {"decoder_topology": STAR}],
)
def test_config_refuses_learned_positions_that_are_not_one_whole_number(
    other: dict[str, str],
) -> None:
    with pytest.raises(
        ValueError, match=r"^position_signal must be another where .*; got 'learned'"
    ):
        small(position_signal="learned", **other)


def test_config_refuses_noise_on_injected_states_where_none_are() -> None:
    for place in ("injected", "every_step"):
        with pytest.raises(ValueError, match=f"'first' where inject_input is False; got '{place}'"):
            small(noise=0.1, noise_on=place)
        assert small(noise=0.1, noise_on=place, inject_input=True).noise_on == place


@pytest.mark.parametrize("other", [{"source_positions": "both"}, {"encoder_topology": "star"}])
def test_config_refuses_restart_after_with_other_positions(other: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"^restart_after must be 0 where .*; got 2"):
        small(restart_after=2, **other)


def test_config_proposes_a_causal_decoder_topology() -> None:
    with pytest.raises(ValueError, match=r"causal: '\(window:1\|star\)&causal'; got"):
        small(decoder_topology="window:1|star")
    assert small(decoder_topology="(window:1|star)&causal")


def test_config_refuses_to_share_embeddings_of_two_sizes() -> None:
    with pytest.raises(ValueError, match="share_embeddings must be False where"):
        small(share_embeddings=True, source_vocab=9)


def test_to_dict_and_from_dict_go_through_json() -> None:
    config = small(norm="pre", rule="act:threshold=0.7", decoder_topology="window:2&causal")
    assert UniversalTransformerConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_from_dict_names_unknown_and_missing_fields() -> None:
    values = small().to_dict()
    with pytest.raises(ValueError, match="unknown fields: colour, size"):
        UniversalTransformerConfig.from_dict({**values, "size": 1, "colour": 2})
    del values["source_vocab"], values["target_vocab"]
    with pytest.raises(ValueError, match="missing fields: source_vocab, target_vocab"):
        UniversalTransformerConfig.from_dict(values)


def test_from_dict_takes_an_older_configuration() -> None:
    values = small(norm="pre").to_dict()
    for name in ("restart_after", "position_signal", "noise", "attention_bias"):
        del values[name]
    assert UniversalTransformerConfig.from_dict(values) == small(norm="pre")


def test_from_dict_makes_a_rule_of_the_settings_of_older_versions() -> None:
    values = small().to_dict()
    del values["rule"], values["evaluation_rule"], values["halting_norm"]
    old = {"threshold": 0.7, "weighting": "ema", "halt_from": "output", "forced_remainder": False}
    found = UniversalTransformerConfig.from_dict({**values, **old, "cost": "remainder"})
    assert parse_rule(found.rule) == ACT(**old, cost="remainder")
    usual = {"threshold": 0.99, "weighting": "sum", "halt_from": "input", "forced_remainder": True}
    found = UniversalTransformerConfig.from_dict({**values, **usual, "cost": "steps+remainder"})
    assert found == small()
    with pytest.raises(ValueError, match="threshold of 'act' must be a number, got 'high'"):
        UniversalTransformerConfig.from_dict({**values, "threshold": "high"})


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("rule", "mean", "there is no halting rule 'mean'; choose one of: .*act, "),
        (
            "rule",
            "act:thresh=1",
            "'act' has no setting 'thresh'; its settings: threshold, halt_from",
        ),
        ("evaluation_rule", "convergence:patience=0", "patience must be at least 1, got 0"),
    ],
)
def test_config_quotes_a_wrong_rule(name: str, value: str, words: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} cannot be {value!r}: {words}"):
        small(**{name: value})


@pytest.mark.parametrize("name", ["rule", "evaluation_rule"])
def test_config_refuses_global_halting_in_a_decoder(name: str) -> None:
    language = {"vocab_size": 9, name: "global:act"}
    for make in (
        lambda: small(**{name: "global"}),
        lambda: UniversalTransformerLMConfig(**language),
    ):
        with pytest.raises(ValueError, match=f"{name} must be a rule for single tokens"):
            make()
    assert UniversalTransformerPointerConfig(**language).vocab_size == 9


def test_config_refuses_a_rule_that_needs_what_is_not_there() -> None:
    with pytest.raises(ValueError, match="evaluation_rule must be one without probabilities"):
        small(adaptive=False, evaluation_rule="threshold")


@pytest.mark.parametrize("name", HALTING_PRESETS)
def test_preset_sets_the_halting_of_a_source(name: str) -> None:
    config = UniversalTransformerConfig.preset(name, source_vocab=5, target_vocab=5, max_steps=3)
    preset = HALTING_PRESETS[name]
    assert {key: getattr(config, key) for key in preset["step"]} == preset["step"]
    found = {key: getattr(config, key) for key in preset["recurrence"]}
    assert {**found, "rule": parse_rule(config.rule)} == preset["recurrence"]
    assert config.attention_bias == preset["attention"]["bias"]
    assert preset["halting"] == {"bias_init": config.halting_bias, "norm": config.halting_norm}
    assert config.max_steps == 3


def test_preset_gives_way_to_other_options() -> None:
    options = {"source_vocab": 5, "target_vocab": 5, "norm": "post", "halted": "frozen"}
    config = UniversalTransformerConfig.preset("dgl_tutorial", **options)
    assert (config.norm, config.halted) == ("post", "frozen")
    assert parse_rule(config.rule) == HALTING_PRESETS["dgl_tutorial"]["recurrence"]["rule"]


def test_preset_quotes_an_unknown_name() -> None:
    with pytest.raises(ValueError, match="unknown preset 'fast'; choose one of: paper"):
        UniversalTransformerConfig.preset("fast", source_vocab=5, target_vocab=5)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (
            {"adaptive": False, "share_weights": False, "evaluation_rule": "convergence"},
            "'fixed' where share_weights is False",
        ),
        (
            {"rule": "act:halt_from=output", "evaluation_rule": "threshold"},
            "one with the halt_from of act:halt_from=output",
        ),
    ],
)
def test_config_refuses_rules_that_do_not_fit(options: dict[str, Any], wanted: str) -> None:
    with pytest.raises(ValueError, match=f"^evaluation_rule must be {wanted}"):
        small(**options)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"layer": "gat", "scale_by_degree": True}, "scale_by_degree must be False where layer"),
        ({"layer": "gin", "symmetric_init": True}, "symmetric_init must be False where layer"),
        ({"layer": "gin", "attention_bias": False}, "attention_bias must be True where layer"),
        ({"max_offset": 3}, "max_offset must be 0: the nodes of a graph are in no order; got 3"),
    ],
)
def test_graph_config_refuses_options_without_effect(options: dict[str, Any], wanted: str) -> None:
    with pytest.raises(ValueError, match=wanted):
        UniversalGraphTransformerConfig(num_kinds=2, classes=2, **options)
