"""Universal Transformers on graphs: sparse topologies, adaptive computation time."""

from typing import TYPE_CHECKING

from graphut._lazy import lazy_names
from graphut._version import __version__

if TYPE_CHECKING:
    from graphut import attention, models, nn, plotting, topology
    from graphut.attention import EdgeLayout, as_layout, edge_attention
    from graphut.models import (
        UniversalGraphTransformer,
        UniversalGraphTransformerConfig,
        UniversalTransformer,
        UniversalTransformerConfig,
        UniversalTransformerLM,
        UniversalTransformerLMConfig,
        load,
    )
    from graphut.sentences import sentence_graph
    from graphut.subwords import Subwords
    from graphut.vocabulary import Characters, Vocabulary

__all__ = [
    "Characters",
    "EdgeLayout",
    "Subwords",
    "UniversalGraphTransformer",
    "UniversalGraphTransformerConfig",
    "UniversalTransformer",
    "UniversalTransformerConfig",
    "UniversalTransformerLM",
    "UniversalTransformerLMConfig",
    "Vocabulary",
    "__version__",
    "as_layout",
    "attention",
    "edge_attention",
    "load",
    "models",
    "nn",
    "plotting",
    "sentence_graph",
    "topology",
]

__getattr__, __dir__ = lazy_names(__name__)
