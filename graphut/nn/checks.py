"""Checks of graphs, features and probabilities, and of the modules that a layer is made of."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout
from graphut.attention.checks import check_frontier
from graphut.attention.registry import check_backend

PASS_A_PAIR = "pass a pair of features: (source, destination features)"


def destination_rows(layout: EdgeLayout, feat: Tensor, frontier: Tensor | None) -> Tensor:
    """Return the features of all destinations, the first sources, or of those in `frontier`."""
    if layout.num_src < layout.num_dst:
        raise ValueError(
            f"the graph has {layout.num_dst} destination and {layout.num_src} source nodes, but in "
            "a step every destination must be a source too; MultiHeadAttention connects two types"
        )
    if frontier is None:
        return feat[: layout.num_dst]
    check_frontier(layout, frontier)
    return feat[frontier]


def check_same_nodes(
    graph: DGLGraph | EdgeLayout,
    advice: str = "a step needs a graph with one node type, or a block; HeteroAdaptiveConv is a "
    "recurrence over several node types; MultiHeadAttention, without a step, connects two types",
) -> None:
    """Raise an error, with `advice`, if the edges connect two different types of nodes."""
    if not isinstance(graph, DGLGraph) or len(graph.etypes) != 1:
        return  # `as_layout` refuses a graph with several edge types
    source, _, target = graph.canonical_etypes[0]
    if source != target:
        raise ValueError(f"the graph's edges go from {source!r} to {target!r} nodes; {advice}")


_PARTS = {  # the last two may be None
    "attention": "MultiHeadAttention, or a layer of DGL or PyG as ConvAsAttention(layer, feats)",
    "transition": "PositionwiseTransition, SeparableConvTransition or None",
    "cross_attention": "MultiHeadAttention or None",
}


def check_attention_options(backend: str, attn_drop: float, **sizes: int | None) -> None:
    """Raise an error if a backend is unknown, or a probability or a size is out of range."""
    check_backend(backend)
    check_sizes(**sizes)
    check_probability("attn_drop", attn_drop)


def check_sizes(**sizes: int | None) -> None:
    """Raise `ValueError` unless the sizes, by the names of arguments, are integers above 0."""
    for name, size in sizes.items():
        if size is not None and not isinstance(size, Integral):
            raise ValueError(f"{name} must be an integer, got {size!r}")
        if size is not None and size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")


def check_probability(name: str, value: float) -> None:
    """Raise `ValueError` unless the argument `name` is a probability below 1."""
    if not 0.0 <= value < 1.0:
        raise ValueError(f"{name} must lie in [0, 1), got {value}")


def check_widths(step: Any) -> None:
    """Raise an error unless the parts of a step are layers with the same number of features."""
    for name, kinds in _PARTS.items():
        part, kind = getattr(step, name), int if name == "transition" else tuple
        is_missing = part is None and name != "attention"
        if not (is_missing or isinstance(getattr(part, "in_feats", None), kind)):
            raise TypeError(f"{name} must be {kinds}; got {type(part).__name__}")
    source, width = step.attention.in_feats
    widths = {"sources of attention": source}
    if step.transition is not None:
        widths["transition"] = step.transition.in_feats
    if step.cross_attention is not None:
        widths["destinations of cross_attention"] = step.cross_attention.in_feats[1]
    for name, other in widths.items():
        if other != width:
            raise ValueError(
                "all parts of a step need the same number of features: destinations of attention "
                f"have {width}, but {name} has {other}"
            )


def check_separate_steps(steps: Sequence[Any], halting: nn.Module | None, max_steps: int) -> None:
    """Raise an error unless there are `max_steps` steps with equal settings and a unit for each."""
    if getattr(halting, "units", max_steps) != max_steps:
        raise ValueError(
            f"each of the {max_steps} steps needs a halting unit of its own: use "
            f"HaltingUnit(d, units={max_steps}), or halting=None for a fixed depth"
        )
    if len(steps) != max_steps:
        raise ValueError(f"got {len(steps)} steps for max_steps={max_steps}; pass {max_steps}")
    if len(set(steps)) < len(steps):
        raise ValueError("a step is in the sequence twice; pass one step to share its weights")
    if any(step.output_norm is not None for step in steps[:-1]):
        raise ValueError("only the last step may have an output norm: use output_norm=False")
    settings = []
    for number, step in enumerate(steps, 1):
        parts = [repr(part) for name, part in step.named_children() if name != "output_norm"]
        shapes = [(n, x.shape) for n, x in step.named_parameters() if "output_norm" not in n]
        settings.append((step.extra_repr(), parts, shapes))
        if settings[0] != settings[-1]:
            raise ValueError(f"step {number} has other settings than the first step")


def check_batch_norm(layer: nn.Module, rule: Any, in_training: bool) -> None:
    """Raise an error if a `BatchNorm` in `layer` depends on which nodes are active."""
    for module in layer.modules():  # in evaluation, running statistics do not depend on the nodes
        if isinstance(module, _BatchNorm) and (in_training or not module.track_running_stats):
            raise ValueError(
                f"{rule} cannot be used with {type(module).__name__}, whose statistics depend on "
                "which nodes are active: use LayerNorm, or batch_norm of UniversalTransformerStep"
            )
