"""The recurrence of an encoder or a decoder, made from a configuration."""

from __future__ import annotations

from functools import partial

from graphut.models.config import ModelConfig
from graphut.nn import (
    AdaptiveRecurrence,
    HaltingUnit,
    MultiHeadAttention,
    PositionwiseTransition,
    SeparableConvTransition,
    UniversalTransformerStep,
    parse_rule,
)
from graphut.nn.transition import Transition


def make_recurrence(
    config: ModelConfig,
    *,
    causal: bool = False,
    cross_attention: bool = False,
    extra_nodes: bool = False,
) -> AdaptiveRecurrence:
    """Make the adaptive recurrence of an encoder or a decoder.

    Parameters
    ----------
    config : ModelConfig
        The shape of the recurrence.
    causal : bool
        Whether a transition reads earlier tokens alone, as the decoder writes one by one.
    cross_attention : bool
        Whether there is cross-attention to the output of another recurrence.
    extra_nodes : bool
        Whether some nodes are no tokens: they read nothing by cross-attention.

    Examples
    --------
    >>> make_recurrence(ModelConfig(max_steps=6)).max_steps
    6
    """
    attention = partial(
        MultiHeadAttention,
        config.d_model,
        config.num_heads,
        attn_drop=config.attention_dropout,
        scale_by_degree=config.scale_by_degree,
        symmetric_init=config.symmetric_init,
    )

    def step(is_last: bool = True) -> UniversalTransformerStep:
        # Extra nodes see no source; the sentence graph has checked that all tokens do.
        cross = attention(allow_zero_in_degree=extra_nodes) if cross_attention else None
        return UniversalTransformerStep(
            attention(),
            _transition(config, causal=causal),
            cross_attention=cross,
            norm=config.norm,
            dropout=config.dropout,
            output_norm=is_last,
        )

    halting = HaltingUnit(
        config.d_model,
        bias_init=config.halting_bias,
        gain=config.halting_gain,
        norm=config.halting_norm,
    )
    layers = [False] * (config.max_steps - 1) + [True]
    return AdaptiveRecurrence(
        step() if config.share_weights else [step(is_last) for is_last in layers],
        halting if config.adaptive else None,
        rule=parse_rule(config.rule) if config.adaptive else None,
        evaluation_rule=parse_rule(config.evaluation_rule) if config.evaluation_rule else None,
        max_steps=config.max_steps,
        halted=config.halted,
    )


def _transition(config: ModelConfig, *, causal: bool) -> Transition:
    if config.transition == "sepconv":
        return SeparableConvTransition(
            config.d_model, config.d_hidden, kernel_size=config.kernel_size, causal=causal
        )
    return PositionwiseTransition(config.d_model, config.d_hidden)
