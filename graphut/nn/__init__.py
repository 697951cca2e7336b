"""Graph layers: attention, transitions, halting, and the adaptive recurrence."""

from typing import TYPE_CHECKING

from graphut._lazy import lazy_names

if TYPE_CHECKING:
    from graphut.nn.adaptive_conv import AdaptiveConv
    from graphut.nn.aggregation import NeighborMean
    from graphut.nn.conv_adapters import ConvAsAttention, LayerAsConv
    from graphut.nn.graph_call import from_edge_index
    from graphut.nn.halting import ScheduledHalting
    from graphut.nn.hetero_attention import HeteroAttention
    from graphut.nn.hetero_conv import HeteroAdaptiveConv
    from graphut.nn.layers import MultiHeadAttention, PositionwiseTransition, StepBatchNorm
    from graphut.nn.messages import MessageAggregation
    from graphut.nn.noise import InputNoise, Quantized
    from graphut.nn.ponder import AttentionRecord, Ponder
    from graphut.nn.presets import HALTING_PRESETS
    from graphut.nn.propagation import AdaptivePropagation
    from graphut.nn.recurrence import AdaptiveRecurrence
    from graphut.nn.registers import RegisterMessages
    from graphut.nn.rules import (
        ACT,
        Convergence,
        Decision,
        EventDriven,
        FixedDepth,
        Global,
        HaltingRule,
        PonderNet,
        Threshold,
        parse_rule,
    )
    from graphut.nn.separable_conv import SeparableConvTransition
    from graphut.nn.signals import (
        LearnedSignal,
        SinusoidalSignal,
        coordinate_signal,
    )
    from graphut.nn.step import HaltingUnit, UniversalTransformerStep

__all__ = [
    "ACT",
    "HALTING_PRESETS",
    "AdaptiveConv",
    "AdaptivePropagation",
    "AdaptiveRecurrence",
    "AttentionRecord",
    "ConvAsAttention",
    "Convergence",
    "Decision",
    "EventDriven",
    "FixedDepth",
    "Global",
    "HaltingRule",
    "HaltingUnit",
    "HeteroAdaptiveConv",
    "HeteroAttention",
    "InputNoise",
    "LayerAsConv",
    "LearnedSignal",
    "MessageAggregation",
    "MultiHeadAttention",
    "NeighborMean",
    "Ponder",
    "PonderNet",
    "PositionwiseTransition",
    "Quantized",
    "RegisterMessages",
    "ScheduledHalting",
    "SeparableConvTransition",
    "SinusoidalSignal",
    "StepBatchNorm",
    "Threshold",
    "UniversalTransformerStep",
    "coordinate_signal",
    "from_edge_index",
    "parse_rule",
]

__getattr__, __dir__ = lazy_names(__name__)
