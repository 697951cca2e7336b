"""Universal Transformers on graphs: sparse topologies, adaptive computation time."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from graphut._version import __version__

if TYPE_CHECKING:
    from graphut import attention, models, nn, plotting, topology
    from graphut.attention import EdgeLayout, as_layout, edge_attention
    from graphut.models import (
        UniversalGraphTransformer,
        UniversalGraphTransformerConfig,
        UniversalTransformer,
        UniversalTransformerClassifier,
        UniversalTransformerClassifierConfig,
        UniversalTransformerConfig,
        UniversalTransformerLM,
        UniversalTransformerLMConfig,
        UniversalTransformerPointer,
        UniversalTransformerPointerConfig,
        load,
    )
    from graphut.sentences import sentence_graph

__all__ = [
    "EdgeLayout",
    "UniversalGraphTransformer",
    "UniversalGraphTransformerConfig",
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
    "attention",
    "edge_attention",
    "load",
    "models",
    "nn",
    "plotting",
    "sentence_graph",
    "topology",
]

_MODULES = ("attention", "models", "nn", "plotting", "topology")
_NOT_IN_MODELS = dict.fromkeys(("EdgeLayout", "as_layout", "edge_attention"), "attention")
_NOT_IN_MODELS["sentence_graph"] = "sentences"


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used (PEP 562), so that `import graphut` is fast."""
    if name not in __all__:
        raise AttributeError(f"module 'graphut' has no attribute {name!r}")
    if name in _MODULES:
        return import_module(f"graphut.{name}")
    value = getattr(import_module(f"graphut.{_NOT_IN_MODELS.get(name, 'models')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
