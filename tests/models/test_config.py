import json
from functools import partial
from typing import Any

import pytest

from graphut.models import UniversalTransformerConfig, UniversalTransformerLMConfig
from graphut.models.config import (
    UniversalGraphTransformerConfig,
    UniversalTransformerClassifierConfig,
    UniversalTransformerPointerConfig,
)
from graphut.nn import HALTING_PRESETS, parse_rule
from tests.helpers import refuses
from tests.models.cases import small

BOTH_ENDS = {"source_positions": "both"}
STAR_ENCODER = {"encoder_topology": "star"}


SEPCONV, LEARNED = {"transition": "sepconv"}, {"position_signal": "learned"}
THRESHOLD = {"evaluation_rule": "threshold"}
UNSHARED = {"adaptive": False, "share_weights": False}
CLASSIFIER: Any = partial(UniversalTransformerClassifierConfig, vocab_size=9, classes=2)
LANGUAGE: Any = partial(UniversalTransformerLMConfig, vocab_size=9)
GRAPH: Any = partial(UniversalGraphTransformerConfig, num_kinds=2, classes=2)


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (small, {"num_heads": 3}, "num_heads must be a divisor of 8; got 3"),
        (small, {"max_steps": 1_000_001}, "max_steps must be at most 1,000,000; got 1000001"),
        (small, {"spread_positions": True}, "spread_positions must be False if max_offset is 0"),
        (small, {"restart_after": 100}, "restart_after must be one of the 7 tokens, or 0; got 100"),
        (small, {"norm_eps": 0.0}, "norm_eps must be positive; got 0.0"),
        (small, {"attention_dropout": -0.1}, r"attention_dropout must be in \[0, 1\); got -0.1"),
        (
            small,
            {"decoder_topology": "causal|virtual:1"},
            "decoder_topology must be causal: .*; got",
        ),
        (small, {"cross_topology": "star"}, "cross_topology must be one without extra nodes; got"),
        (small, {**SEPCONV, "kernel_size": 4}, "kernel_size must be odd; got 4"),
        (small, {**SEPCONV, **STAR_ENCODER}, "transition must be 'positionwise' if a topology"),
        (small, {**LEARNED, **BOTH_ENDS}, "position_signal must be other than 'learned' if"),
        (small, {"restart_after": 2, **BOTH_ENDS}, "restart_after must be 0 if .*; got 2"),
        (
            small,
            {"segment_embedding": True},
            "segment_embedding must be False if restart_after is 0",
        ),
        (small, {"restart_after": 2, **STAR_ENCODER}, "restart_after must be 0 if .*; got 2"),
        (small, {"share_embeddings": True, "source_vocab": 9}, "share_embeddings must be False if"),
        (small, {"share_weights": False}, "share_weights must be True if adaptive is"),
        (small, {"rule": "mean"}, "rule cannot be 'mean': there is no halting rule 'mean'; choose"),
        (
            small,
            {"evaluation_rule": "act:threshold=0"},
            "evaluation_rule cannot be 'act:threshold=0'",
        ),
        (small, {"rule": "global"}, "rule must be a rule other than global and event_driven"),
        (small, {"adaptive": False} | THRESHOLD, "evaluation_rule must be a rule without prob"),
        (
            small,
            {**UNSHARED, "evaluation_rule": "convergence"},
            "evaluation_rule must be 'fixed' if",
        ),
        (
            small,
            {"rule": "act:halt_from=output"} | THRESHOLD,
            "evaluation_rule must be one with the",
        ),
        (CLASSIFIER, {"positions": "fixed", "max_offset": 3}, "max_offset must be 0 if positions"),
        (LANGUAGE, {"topology": "complete"}, r"topology must be causal: '\(complete\)&causal'"),
        (GRAPH, {"layer": "gat", "scale_by_degree": True}, "scale_by_degree must be False where"),
        (GRAPH, {"layer": "gin", "attention_bias": False}, "attention_bias must be True where"),
        (GRAPH, {"layer": "gin", "attention_dropout": 0.5}, "attention_dropout must be 0 where"),
        (GRAPH, {"layer": "registers", "adaptive": False}, "answer_at must be 'edge' where layer"),
        (GRAPH, {"max_offset": 3}, "max_offset must be 0 in graphs, whose nodes are in no order"),
        (GRAPH, {"num_feats": 2}, "num_kinds must be 0, since num_feats is 2; got 2"),
        (GRAPH, {"edge_types": "a b", "edge_feats": 1}, "edge_feats must be at least 2, one for"),
        (GRAPH, {"layer": "none"}, "messages must be 'max' or 'sum' where"),
        (GRAPH, {"layer": "gin", "messages": "max"}, "messages must be 'none' where layer is"),
        (GRAPH, {"step_loss": "second_half"}, "step_loss must be other than 'second_half' where"),
        (GRAPH, {"change_penalty": 0.1}, r"change_penalty must be 0 where nodes halt in training"),
        (GRAPH, {"change_scale": 0.0}, r"change_scale must be positive; got 0\.0"),
        (GRAPH, {"quantize_noise": 0.3}, r"quantize_noise must be 0 where quantize is 0; got 0\.3"),
        (GRAPH, {"initial_noise": 2.0, "noise": 0.1}, r"initial_noise must be 0 where noise_on is"),
        (GRAPH, {"depth_modulus": 1}, "depth_modulus must be 0 or at least 2; got 1"),
        (GRAPH, {"depth_modulus": 3}, "depth_modulus must be 0 where step_loss is 'none'; got 3"),
    ],
    ids=lambda x: "-".join(x) if isinstance(x, dict) else "",
)
def test_configs_refuse_options_that_do_not_fit_together(
    make: Any, options: dict[str, Any], message: str
) -> None:
    refuses(f"^{message}", make, **options)


def test_config_accepts_the_options_that_the_refused_ones_resemble() -> None:
    assert small(kernel_size=4).transition == "positionwise"
    assert small(encoder_topology="star", decoder_topology="(window:1|star)&causal")
    assert UniversalTransformerPointerConfig(vocab_size=9, rule="global:act").vocab_size == 9
    for place in ("injected", "every_step"):
        with pytest.raises(ValueError, match=f"'first' if inject_input is False; got '{place}'"):
            small(noise=0.1, noise_on=place)
        assert small(noise=0.1, noise_on=place, inject_input=True).noise_on == place


def test_to_dict_and_from_dict_go_through_json() -> None:
    config = small(norm="pre", rule="act:threshold=0.7", decoder_topology="window:2&causal")
    assert UniversalTransformerConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_from_dict_names_unknown_and_missing_fields() -> None:
    values = small().to_dict()
    read = UniversalTransformerConfig.from_dict
    refuses("unknown fields: colour, size", read, {**values, "size": 1, "colour": 2})
    del values["source_vocab"], values["target_vocab"]
    refuses("missing fields: source_vocab, target_vocab", read, values)


def test_from_dict_takes_an_older_configuration() -> None:
    values = small(norm="pre", add_bos_eos=True).to_dict()
    for name in ("restart_after", "position_signal", "noise", "attention_bias"):
        del values[name]
    values["frame_source"] = values.pop("add_bos_eos")
    values["geometric_attention"] = False
    read = UniversalTransformerConfig.from_dict
    assert read(values) == small(norm="pre", add_bos_eos=True)
    refuses("geometric_attention is True", read, {**values, "geometric_attention": True})


def test_preset_gives_way_to_other_options() -> None:
    options = {"source_vocab": 5, "target_vocab": 5, "norm": "post", "halted": "frozen"}
    config = UniversalTransformerConfig.preset("dgl_tutorial", **options)
    assert (config.norm, config.halted) == ("post", "frozen")
    assert parse_rule(config.rule) == HALTING_PRESETS["dgl_tutorial"]["recurrence"]["rule"]
    refuses("unknown preset 'fast'; choose .*: paper", UniversalTransformerConfig.preset, "fast")
