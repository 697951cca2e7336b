import math
from functools import partial
from typing import Any

from graphut.models import UniversalTransformerLMConfig
from graphut.models.config import SearchOptions, UniversalGraphTransformerConfig
from graphut.nn import ACT
from graphut.topology import Global, Window
from tests.helpers import refuses
from tests.models.cases import small

BOTH_ENDS = {"source_positions": "both"}
STAR_ENCODER = {"encoder_topology": "star"}


SEPCONV = {"transition": "sepconv"}
THRESHOLD = {"evaluation_rule": "threshold"}
UNSHARED = {"adaptive": False, "share_weights": False}
LANGUAGE: Any = partial(UniversalTransformerLMConfig, vocab_size=9)
GRAPH: Any = partial(UniversalGraphTransformerConfig, num_kinds=2, classes=2)


def test_configs_refuse_options_that_do_not_fit_together() -> None:
    refuses("^num_heads must be a divisor of 8; got 3", small, num_heads=3)
    refuses("^restart_after must be one of the 7 tokens, or 0; got 100", small, restart_after=100)
    refuses(r"^attention_dropout must be in \[0, 1\); got -0.1", small, attention_dropout=-0.1)
    refuses(r"^input_dropout must be in \[0, 1\); got 1.5", GRAPH, num_feats=2, input_dropout=1.5)
    refuses("^change_scale must be at least 1e-06; got 0", GRAPH, change_scale=0.0)
    refuses("^decoder_topology must be causal: .*; got", small, decoder_topology="causal|virtual:1")
    refuses("^cross_topology must be one without extra nodes; got", small, cross_topology="star")
    refuses("^kernel_size must be odd; got 4", small, **SEPCONV, kernel_size=4)
    refuses("^transition must be 'positionwise' if a topology", small, **SEPCONV, **STAR_ENCODER)
    refuses("^restart_after must be 0 if .*; got 2", small, restart_after=2, **BOTH_ENDS)
    refuses("^restart_after must be 0 if .*; got 2", small, restart_after=2, **STAR_ENCODER)
    refuses("^share_embeddings must be False if", small, share_embeddings=True, source_vocab=9)
    refuses("^share_weights must be True if adaptive is", small, share_weights=False)
    refuses("^rule cannot be 'mean': there is no halting rule 'mean'; choose", small, rule="mean")
    refuses(
        "^evaluation_rule cannot be 'act:threshold=0'", small, evaluation_rule="act:threshold=0"
    )
    refuses("^rule must be a rule other than global and event_driven", small, rule="global")
    refuses("^evaluation_rule must be a rule without prob", small, adaptive=False, **THRESHOLD)
    refuses("^evaluation_rule must be 'fixed' if", small, **UNSHARED, evaluation_rule="convergence")
    refuses(
        "^evaluation_rule must be one with the", small, rule="act:halt_from=output", **THRESHOLD
    )
    refuses(r"^topology must be causal: '\(complete\)&causal'", LANGUAGE, topology="complete")
    refuses("^scale_by_degree must be False where", GRAPH, layer="gat", scale_by_degree=True)
    refuses("^attention_dropout must be 0.0 where", GRAPH, layer="gin", attention_dropout=0.5)
    refuses("^answer_at must be 'edge' where layer", GRAPH, layer="registers", adaptive=False)
    refuses("^max_offset must be 0 in graphs, whose nodes are in no order", GRAPH, max_offset=3)
    refuses("^num_kinds must be 0, since num_feats is 2; got 2", GRAPH, num_feats=2)
    refuses("^messages must be 'max' or 'sum' where", GRAPH, layer="none")
    refuses("^messages must be 'none' where layer is", GRAPH, layer="gin", messages="max")
    refuses("^step_loss must be other than 'second_half' where", GRAPH, step_loss="second_half")
    refuses(r"^change_penalty must be 0.0 where nodes halt in training", GRAPH, change_penalty=0.1)
    refuses("^depth_modulus must be 0 where step_loss is 'none'; got 3", GRAPH, depth_modulus=3)


def test_config_accepts_the_options_that_the_refused_ones_resemble() -> None:
    assert small(kernel_size=4).transition == "positionwise"
    assert small(encoder_topology="star", decoder_topology="(window:1|star)&causal")
    assert small(encoder_topology=Window(2) | Global(0)).encoder_topology == "window:2|global:0"
    assert small(rule=ACT(threshold=0.5)).rule == "act:threshold=0.5"
    later = {"noise": 0.1, "noise_on": "every_step"}
    refuses("'first' if inject_input is False; got 'every_step'", small, **later)
    assert small(**later, inject_input=True).noise_on == "every_step"


def test_search_options_refuse_wrong_values() -> None:
    refuses("max_length must be at least 1; got 0", SearchOptions, max_length=0)
    refuses("beam_size must be an integer; got 2.0", SearchOptions, beam_size=2.0)
    refuses("length_penalty must be at least 0; got -0.5", SearchOptions, length_penalty=-0.5)
    refuses(
        "length_penalty must be a number from .*; got nan", SearchOptions, length_penalty=math.nan
    )
    refuses("temperature must be positive; omit it .*; got 0", SearchOptions, temperature=0)
    refuses("temperature must be a number from .*; got inf", SearchOptions, temperature=math.inf)
    refuses(
        r"beam_size must be 1 with sampling .*; got 2", SearchOptions, beam_size=2, temperature=0.5
    )
