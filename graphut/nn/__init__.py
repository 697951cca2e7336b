"""Graph layers: attention, transitions, halting, and the adaptive recurrence."""

from graphut.nn.attention import MultiHeadAttention
from graphut.nn.attention_record import AttentionRecord
from graphut.nn.conv_adapters import ConvAsAttention, EdgeIndexLayer, LayerAsConv, OutputOnly
from graphut.nn.dgl_layers import DotGATConv
from graphut.nn.edge_index import from_edge_index
from graphut.nn.encodings import laplacian_encoding, random_walk_encoding
from graphut.nn.halting import HaltingUnit, ScheduledHalting
from graphut.nn.messages import MessageAggregation
from graphut.nn.noise import InputNoise
from graphut.nn.ponder import Ponder
from graphut.nn.presets import HALTING_PRESETS
from graphut.nn.quantized import Quantized
from graphut.nn.recurrence import AdaptiveRecurrence
from graphut.nn.reference import dense_event_driven, dense_recurrence
from graphut.nn.rules import (
    ACT,
    Convergence,
    Decision,
    EventDriven,
    FixedDepth,
    Global,
    HaltingRule,
    PonderNet,
    Quantile,
    Sampled,
    Threshold,
    parse_rule,
)
from graphut.nn.signals import LearnedSignal, SinusoidalSignal, coordinate_signal
from graphut.nn.step import UniversalTransformerStep
from graphut.nn.transition import CopyGate, PositionwiseTransition, SeparableConvTransition

__all__ = [
    "ACT",
    "HALTING_PRESETS",
    "AdaptiveRecurrence",
    "AttentionRecord",
    "ConvAsAttention",
    "Convergence",
    "CopyGate",
    "Decision",
    "DotGATConv",
    "EdgeIndexLayer",
    "EventDriven",
    "FixedDepth",
    "Global",
    "HaltingRule",
    "HaltingUnit",
    "InputNoise",
    "LayerAsConv",
    "LearnedSignal",
    "MessageAggregation",
    "MultiHeadAttention",
    "OutputOnly",
    "Ponder",
    "PonderNet",
    "PositionwiseTransition",
    "Quantile",
    "Quantized",
    "Sampled",
    "ScheduledHalting",
    "SeparableConvTransition",
    "SinusoidalSignal",
    "Threshold",
    "UniversalTransformerStep",
    "coordinate_signal",
    "dense_event_driven",
    "dense_recurrence",
    "from_edge_index",
    "laplacian_encoding",
    "parse_rule",
    "random_walk_encoding",
]
