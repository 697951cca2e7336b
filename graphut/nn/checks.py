"""Checks of graphs, node features, probabilities and modules."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.modules.batchnorm import _BatchNorm

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout
from graphut.attention.backends import check_backend
from graphut.attention.checks import is_tracing

PASS_A_PAIR = "pass a pair of features: (source, destination features)"


def check_feat(
    feat: Tensor, side: str, nodes: int, width: int, layer: nn.Module, *, inner: bool = False
) -> None:
    """Raise an error unless `feat` is `(nodes, width)`, in the dtype and on the device of `layer`.

    `side`, "source" or "destination", appears in the message. With `inner`, `feat` may have more
    dimensions between the two.
    """
    check_tensor(feat, f"features of {side} nodes")
    weight = first_weight(layer, feat)
    shape = (len(feat), feat.shape[-1]) if inner and feat.dim() > 2 else feat.shape
    if shape != (nodes, width):
        raise ValueError(
            f"the graph has {nodes} {side} nodes, but their features have shape "
            f"{tuple(feat.shape)}; pass one row of {width} features for each node"
        )
    if feat.device != weight.device:
        raise ValueError(
            f"features of {side} nodes are on {feat.device}, but the layer is on {weight.device}; "
            "move one of them with .to(device)"
        )
    # Under autocast, linear maps cast their input.
    fits = feat.dtype == weight.dtype or torch.is_autocast_enabled(feat.device.type)
    if not (feat.is_floating_point() and fits):
        raise TypeError(
            f"features of {side} nodes are {feat.dtype}, but the layer is {weight.dtype}; "
            "convert one of them with .to(dtype)"
        )


def check_attention_options(backend: str, attn_drop: float, **sizes: int | None) -> None:
    """Raise an error if a backend is unknown, or a probability or a size is out of range."""
    check_backend(backend)
    for name, size in sizes.items():
        if size is not None and size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")
    if not 0.0 <= attn_drop < 1.0:
        raise ValueError(f"attn_drop must lie in [0, 1), got {attn_drop}")


def first_weight(layer: nn.Module, otherwise: Tensor) -> Tensor:
    """Return the first floating-point parameter of the layer, or `otherwise` if it has none."""
    for weight in layer.parameters():  # torch.compile cannot trace `next` of a generator in 2.7
        if weight.is_floating_point():
            return weight
    return otherwise


def check_probability_shape(probability: Tensor, rows: int) -> None:
    """Raise an error unless halting probabilities are `(rows,)` and floating point."""
    if probability.shape != (rows,) or not probability.is_floating_point():
        raise ValueError(
            f"the halting module returned {tuple(probability.shape)} of {probability.dtype} for "
            f"{rows} rows; it must return ({rows},) floating-point probabilities, one for each row "
            "(take [:, 0] of a column)"
        )


def check_same_nodes(
    graph: DGLGraph | EdgeLayout,
    advice: str = "a step needs a graph with one node type, or a block (pass other sources as "
    "cross= of a decoder)",
) -> None:
    """Raise an error, with `advice`, if the edges connect two different types of nodes."""
    if not isinstance(graph, DGLGraph) or graph.is_block or len(graph.etypes) != 1:
        return  # `as_layout` refuses a graph with several edge types
    source, _, target = graph.canonical_etypes[0]
    if source != target:
        raise ValueError(f"the graph's edges go from {source!r} to {target!r} nodes; {advice}")


def check_batch_norm(layer: nn.Module, rule: Any, in_training: bool) -> None:
    """Raise an error if a `BatchNorm` in `layer` depends on which nodes are active."""
    for module in layer.modules():  # in evaluation, running statistics do not depend on the nodes
        if isinstance(module, _BatchNorm) and (in_training or not module.track_running_stats):
            raise ValueError(
                f"{rule} cannot be used with {type(module).__name__}, whose statistics depend on "
                "which nodes are active: use LayerNorm"
            )


def check_sharding(*parts: nn.Module | None) -> None:
    """Raise an error if `fully_shard` (FSDP2) was called on a module that runs in every step.

    Each call of such a module communicates, and processes whose nodes take different numbers of
    steps would wait for each other for ever.
    """
    is_group = distributed.is_available() and distributed.is_initialized()
    if not is_group or distributed.get_world_size() == 1:
        return
    for module in chain.from_iterable(part.modules() for part in parts if part is not None):
        if any(kind.__name__ == "FSDPModule" for kind in type(module).__mro__):
            raise RuntimeError(
                f"fully_shard was called on {type(module).__name__}, which runs in every step, but "
                "processes may take different numbers of steps: call fully_shard on the "
                "AdaptiveRecurrence, or on a module that contains it, and not inside it"
            )


def sources_of(feat: Tensor | tuple[Tensor, Tensor]) -> Tensor:
    """Return the source features from a tensor or from a pair (sources, destinations).

    `dgl.nn.HeteroGraphConv` passes such pairs. Raise an error unless the features of destinations
    are the first rows of the source features.
    """
    if not isinstance(feat, tuple):
        check_tensor(feat, "features of source nodes")
        return feat
    sources, destinations = feat
    if not (is_tracing() or torch.equal(sources[: len(destinations)], destinations)):
        raise ValueError(
            f"got features of {len(sources)} sources and of {len(destinations)} other "
            "destinations, but the destinations of a step must be the first sources (pass other "
            "sources as cross= of a decoder)"
        )
    return sources


def check_tensor(given: object, name: str) -> None:
    """Raise an error unless the argument `name`, whose value is `given`, is a tensor."""
    if not isinstance(given, Tensor):
        advice = "convert them with torch.as_tensor"
        if isinstance(given, (DGLGraph, EdgeLayout)):
            advice = "pass the graph first, then the features"
        raise TypeError(f"{name} must be a tensor, got {type(given).__name__}; {advice}")


_PARTS = {
    "attention": "MultiHeadAttention, or a layer of DGL or PyG as ConvAsAttention(layer, feats)",
    "transition": "PositionwiseTransition or SeparableConvTransition",
}
_OPTIONAL_PARTS = {
    "cross_attention": "MultiHeadAttention or None",
    "copy_gate": "CopyGate or None",
}


def check_widths(step: Any) -> None:
    """Raise an error unless the parts of a step are layers with the same number of features."""
    for name, kinds in (_PARTS | _OPTIONAL_PARTS).items():
        part = getattr(step, name)
        missing = part is None and name in _OPTIONAL_PARTS
        if not (missing or hasattr(part, "in_feats")):
            raise TypeError(f"{name} must be {kinds}; got {type(part).__name__}")
    source, width = step.attention.in_feats
    widths = {
        "sources of attention": source,
        "output of attention": step.attention.out_feats,
        "transition": step.transition.in_feats,
    }
    if step.copy_gate is not None:
        widths["copy_gate"] = step.copy_gate.in_feats
    if step.cross_attention is not None:
        widths["destinations of cross_attention"] = step.cross_attention.in_feats[1]
        widths["output of cross_attention"] = step.cross_attention.out_feats
    for name, found in widths.items():
        if found != width:
            raise ValueError(
                "all parts of a step need the same number of features: destinations of attention "
                f"have {width}, but {name} has {found}"
            )


def check_separate_steps(steps: Sequence[Any], halting: nn.Module | None, max_steps: int) -> None:
    """Raise an error unless there are `max_steps` steps with equal settings, and no `halting`."""
    if halting is not None:
        raise ValueError("a sequence of steps has a fixed depth: use halting=None")
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


class FiniteChecks:
    """Checks of features and halting probabilities; the host waits for the device in each check."""

    def check_features(self, feat: Tensor) -> None:
        """Raise an error if a value of the initial states `feat`, `(N_src, d)`, is not finite."""
        # A sum needs one pass and no memory.
        if is_tracing() or bool(feat.detach().sum().isfinite()) or bool(feat.isfinite().all()):
            return
        node, column = (~feat.isfinite()).nonzero()[0].tolist()
        raise ValueError(
            f"feature {column} of node {node} is {feat[node, column].item()}; features must be "
            "finite numbers"
        )

    def check_probability(self, probability: Tensor, nodes: Tensor | None, step: int) -> None:
        """Raise an error if a halting probability, `(A,)`, is NaN or outside [0, 1]."""
        if not probability.numel() or is_tracing():
            return
        low, high = probability.detach().aminmax()
        if bool((low >= 0.0) & (high <= 1.0)):  # False for NaN
            return
        row = int(wrong_probabilities(probability).nonzero()[0])
        node = row if nodes is None else int(nodes[row])
        raise ValueError(probability_error(node, step, bool(probability[row].isnan())))

    def bound(self, count: Tensor) -> int:
        """Return the number of active nodes, `count`, as an int; a subclass may return more."""
        return int(count)

    def close(self) -> None:
        """Finish the checks of one call; this class has nothing left to do, unlike a subclass."""


def wrong_probabilities(probability: Tensor) -> Tensor:
    """Return an int32 code for each probability: 0 in [0, 1], 1 outside, 2 for NaN."""
    p = probability.detach()
    return (~((p >= 0.0) & (p <= 1.0))).int() + p.isnan()


def probability_error(node: int, step: int, is_nan: bool) -> str:
    """Return the error message for a halting probability that is NaN or outside [0, 1]."""
    if is_nan:
        return (
            f"the halting probability of node {node} is NaN at step {step}: a weight of the model "
            "or a state that it attends to is not finite; lower the learning rate or clip gradients"
        )
    return (
        f"the halting probability of node {node} is outside of [0, 1] at step {step}; let the "
        "halting module end with a sigmoid"
    )
