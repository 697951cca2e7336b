"""Builders of layers from configurations."""

from collections.abc import Callable
from functools import partial
from typing import Any

from graphut.models.config import ModelConfig
from graphut.nn import (
    AdaptiveRecurrence,
    HaltingUnit,
    InputNoise,
    MultiHeadAttention,
    PositionwiseTransition,
    SeparableConvTransition,
    UniversalTransformerStep,
    parse_rule,
)
from graphut.nn.layers import Transition


def make_attention(config: ModelConfig, **options: Any) -> MultiHeadAttention:
    """Build the attention layer of a configuration; `options` are more arguments of the layer."""
    return MultiHeadAttention(
        config.d_model,
        config.num_heads,
        attn_drop=config.attention_dropout,
        scale_by_degree=config.scale_by_degree,
        symmetric_init=config.symmetric_init,
        **options,
    )


def make_recurrence(
    config: ModelConfig,
    *,
    causal: bool = False,
    cross_attention: bool = False,
    extra_nodes: bool = False,
    attention_layer: Callable[[], Any] | None = None,
    **options: Any,
) -> AdaptiveRecurrence:
    """Build the adaptive recurrence (the repeated step) of an encoder, or of a `causal` decoder.

    `attention_layer` builds a layer that replaces attention; `options` are more arguments of
    `AdaptiveRecurrence`.
    """
    attention = partial(make_attention, config)

    def step(is_last: bool = True) -> UniversalTransformerStep:
        # Extra nodes have no cross edges; the sentence graph checks that all tokens have one.
        cross = attention(allow_zero_in_degree=extra_nodes) if cross_attention else None
        return UniversalTransformerStep(
            attention() if attention_layer is None else attention_layer(),
            _transition(config, causal=causal),
            cross_attention=cross,
            norm=config.norm,
            dropout=config.dropout,
            output_norm=is_last,
        )

    halting = HaltingUnit(config.d_model, bias_init=config.halting_bias, gain=config.halting_gain)
    noise = InputNoise(config.noise, config.noise_on) if config.noise else None
    return AdaptiveRecurrence(
        step() if config.share_weights else [step(t == 1) for t in range(config.max_steps, 0, -1)],
        halting if config.adaptive else None,
        rule=parse_rule(config.rule) if config.adaptive else None,
        evaluation_rule=parse_rule(config.evaluation_rule) if config.evaluation_rule else None,
        max_steps=config.max_steps,
        halted=config.halted,
        position_signal=None if config.position_signal == "none" else config.position_signal,
        step_signal=None if config.step_signal == "none" else config.step_signal,
        inject_input=config.inject_input,
        **{"noise": noise, **options},
    )


def _transition(config: ModelConfig, *, causal: bool) -> Transition:
    sizes, dropout = (config.d_model, config.d_hidden), config.activation_dropout
    if config.transition != "sepconv":
        return PositionwiseTransition(*sizes, dropout=dropout)
    kernel_size = config.kernel_size
    return SeparableConvTransition(*sizes, kernel_size=kernel_size, causal=causal, dropout=dropout)
