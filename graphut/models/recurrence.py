"""The recurrence of an encoder or a decoder, made from a configuration."""

from __future__ import annotations

from typing import Any

from graphut.models.config import ModelConfig
from graphut.nn import (
    AdaptiveRecurrence,
    HaltingUnit,
    MultiHeadAttention,
    PositionwiseTransition,
    SeparableConvTransition,
    UniversalTransformerStep,
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
        Its shape.
    causal : bool
        Whether its tokens are written one by one, so that a transition reads earlier ones alone.
    cross_attention : bool
        Whether it reads the output of another one.
    extra_nodes : bool
        Whether it has nodes that are no tokens: they read nothing by cross-attention.

    Examples
    --------
    >>> make_recurrence(ModelConfig(max_steps=6)).max_steps
    6
    """

    def attention(**options: Any) -> MultiHeadAttention:
        return MultiHeadAttention(
            config.d_model,
            config.num_heads,
            attn_drop=config.attention_dropout,
            scale_by_degree=config.scale_by_degree,
            symmetric_init=config.symmetric_init,
            **options,
        )

    def step(is_last: bool = True) -> UniversalTransformerStep:
        # Extra nodes see no source; that all tokens do, the sentence graph has made sure.
        cross = attention(allow_zero_in_degree=extra_nodes) if cross_attention else None
        return UniversalTransformerStep(
            attention(),
            _transition(config, causal=causal),
            cross_attention=cross,
            norm=config.norm,
            dropout=config.dropout,
            output_norm=is_last,
        )

    halting = HaltingUnit(config.d_model, bias_init=config.halting_bias, gain=config.halting_gain)
    return AdaptiveRecurrence(
        step()
        if config.share_weights
        else [step(t == config.max_steps) for t in range(1, config.max_steps + 1)],
        halting if config.adaptive else None,
        max_steps=config.max_steps,
        threshold=config.threshold,
        halted=config.halted,
        weighting=config.weighting,
        halt_from=config.halt_from,
        forced_remainder=config.forced_remainder,
        cost=config.cost,
    )


def _transition(config: ModelConfig, *, causal: bool) -> Transition:
    if config.transition == "sepconv":
        return SeparableConvTransition(
            config.d_model, config.d_hidden, kernel_size=config.kernel_size, causal=causal
        )
    return PositionwiseTransition(config.d_model, config.d_hidden)
