"""Universal Transformers on graphs: sparse topologies, adaptive computation time."""

from graphut import nn, tasks, topology, training
from graphut._version import __version__
from graphut.attention import EdgeLayout, as_layout, edge_attention
from graphut.decoding import Generation
from graphut.models import (
    LMOutput,
    SequenceOutput,
    UniversalTransformer,
    UniversalTransformerClassifier,
    UniversalTransformerClassifierConfig,
    UniversalTransformerConfig,
    UniversalTransformerLM,
    UniversalTransformerLMConfig,
    UniversalTransformerPointer,
    UniversalTransformerPointerConfig,
)
from graphut.sentences import sentence_graph

__all__ = [
    "EdgeLayout",
    "Generation",
    "LMOutput",
    "SequenceOutput",
    "UniversalTransformer",
    "UniversalTransformerClassifier",
    "UniversalTransformerClassifierConfig",
    "UniversalTransformerConfig",
    "UniversalTransformerLM",
    "UniversalTransformerLMConfig",
    "UniversalTransformerPointer",
    "UniversalTransformerPointerConfig",
    "__version__",
    "as_layout",
    "edge_attention",
    "nn",
    "sentence_graph",
    "tasks",
    "topology",
    "training",
]
