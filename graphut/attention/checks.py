"""Checks of tensors, and of the arguments of an attention call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf, isfinite
from numbers import Real
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.autograd import forward_ad

from graphut.attention.ragged import row_maxima
from graphut.attention.tracing import is_capturing, is_intercepted

if TYPE_CHECKING:
    from graphut.attention.backend import AttentionCall
    from graphut.attention.layout import EdgeLayout

_CLASSES = frozenset({Tensor, nn.Parameter})


def check_tensor(value: Any, name: str) -> None:
    """Raise `TypeError` unless the argument `name` is a plain, strided tensor with its own memory.

    Kernels read memory. A tensor that wraps others has none: a nested, masked or sparse tensor, a
    subclass such as PyG's `EdgeIndex`, or a tensor inside of `torch.func` or forward-mode
    differentiation.
    """
    if not isinstance(value, Tensor):
        advice = "" if value is None else "; convert it with torch.as_tensor"
        if hasattr(value, "in_degrees"):
            advice = "; pass the graph first, then the features"
        raise TypeError(f"{name} must be a tensor, got {type(value).__name__}{advice}")
    kind: Any = type(value)
    # A subclass with memory only adds methods, and does not intercept operators.
    has_memory = kind in _CLASSES or kind.__torch_dispatch__ is Tensor.__torch_dispatch__
    if torch.compiler.is_compiling() or (
        has_memory
        and value.layout is torch.strided
        and not value.is_nested
        and not is_functorch_wrapped_tensor(value)
        and forward_ad._current_level < 0
    ):
        return
    if not is_intercepted():  # operators see such tensors in a mode that intercepts all of them
        raise TypeError(
            f"{name} is a {kind.__name__} with the layout {value.layout}, or inside of torch.func "
            "or forward-mode differentiation: the kernels read plain tensors (x.to_dense())"
        )


def check_feat(feat: Tensor, side: str, nodes: int, width: int, layer: nn.Module) -> None:
    """Raise an error unless `feat` is `(nodes, width)`, in the dtype and on the device of `layer`.

    `side`, "source" or "destination", appears in the message.
    """
    check_tensor(feat, f"features of {side} nodes")
    weight = first_weight(layer, feat)
    if feat.shape != (nodes, width):
        raise ValueError(
            f"features of {side} nodes must be ({nodes}, {width}), one row for each node of the "
            f"graph, as wide as the layer; got shape {tuple(feat.shape)}"
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


def first_weight(layer: nn.Module, otherwise: Tensor) -> Tensor:
    """Return the first floating-point parameter of the layer, or `otherwise` if it has none."""
    parts: list[nn.Module | None] = [layer]  # `layer.modules()` takes four times as long
    while parts:
        if (part := parts.pop()) is not None:
            for weight in part._parameters.values():
                if weight is not None and weight.is_floating_point():
                    return weight
            parts += reversed(part._modules.values())
    return otherwise


def check_index(name: str, index: Any) -> None:
    """Raise `TypeError` unless the argument `name` is a 1-D int64 tensor."""
    check_tensor(index, name)
    if index.dtype != torch.int64 or index.dim() != 1:
        raise TypeError(f"{name} must be a 1-D int64 tensor, got {index!r}")


def check_range(
    name: str, ends: Tensor, num_nodes: int, node: str = "node", limit: str = "there are only {}"
) -> None:
    """Raise `ValueError` unless the ids `ends` in the argument `name` are below `num_nodes`."""
    if not ends.numel():
        return
    low, high = ends.aminmax()
    if int(low) < 0 or int(high) >= num_nodes:
        missing = int(ends[(ends < 0) | (ends >= num_nodes)][0])
        raise ValueError(f"{name} refers to {node} {missing}, but {limit.format(num_nodes)}")


_skipping = ContextVar("_skipping", default=False)


@contextmanager
def skip_checks(skip: bool) -> Iterator[None]:
    """Context manager that disables the checks of `edge_attention`, if `skip` is true."""
    before = _skipping.set(skip or _skipping.get())
    try:
        yield
    finally:
        _skipping.reset(before)


def checks_are_skipped() -> bool:
    """Return whether `skip_checks` has disabled the checks in this thread."""
    return _skipping.get()


def check_call(
    layout: EdgeLayout,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    frontier: Tensor | None,
    edge_bias: Tensor | None,
    edge_weight: Tensor | None,
    scale: float | None,
    dropout: float,
) -> None:
    """Raise unless the shapes, dtypes and devices of all arguments fit the graph and each other."""
    by_edge = {"edge_bias": edge_bias, "edge_weight": edge_weight}
    _check_tensors(query, key=key, value=value, **by_edge)
    for name, table in {"query": query, "key": key, "value": value}.items():
        if table.dim() != 3:
            raise ValueError(
                f"{name} must be (nodes, heads, features), got shape {tuple(table.shape)}"
            )
        if table.dtype != query.dtype:
            raise TypeError(f"{name} is {table.dtype}, but query is {query.dtype}")
    _check_shapes(layout, query, key, value, frontier)
    edges, heads = layout.num_edges, query.shape[1]
    for name, values in by_edge.items():
        if values is None:
            continue
        if values.shape not in {(edges,), (edges, 1), (edges, heads)}:
            raise ValueError(
                f"{name} must be ({edges},) or ({edges}, {heads}) for the edges of this graph, got "
                f"shape {tuple(values.shape)}"
            )
        check_finite(may_be_minus_inf=name == "edge_bias", **{name: values})
    if scale is not None and not (isinstance(scale, Real) and isfinite(scale)):
        raise ValueError(f"scale must be a finite number, got {scale}")
    if not 0.0 <= dropout < 1.0:
        raise ValueError(f"dropout must lie in [0, 1), got {dropout}")


def check_edge_feat(
    layout: EdgeLayout, query: Tensor, value: Tensor, edge_feat: Tensor, edge_map: Tensor | None
) -> None:
    """Raise unless edge features, mapped by `edge_map` if given, can be added to key and value."""
    _check_tensors(query, edge_feat=edge_feat, edge_map=edge_map)
    heads, feats = query.shape[1:]
    by_head: tuple[int, ...] = (heads, feats)
    fits = value.shape[2] == feats
    if edge_map is not None:
        by_head, fits = edge_map.shape[2:], fits and edge_map.shape[:2] == (heads, feats)
    if not fits or edge_feat.shape != (layout.num_edges, *by_head):
        raise ValueError(
            f"edge_feat must be ({layout.num_edges}, F) with an edge_map ({heads}, {feats}, F), or "
            f"({layout.num_edges}, {heads}, {feats}) without, for a value with {feats} features; "
            f"got shapes {tuple(edge_feat.shape)} and "
            f"{None if edge_map is None else tuple(edge_map.shape)}, and {value.shape[2]} features"
        )
    check_finite(edge_feat=edge_feat)
    if edge_map is not None:
        check_finite(edge_map=edge_map)


def _check_tensors(query: Tensor, **others: Any) -> None:
    """Raise unless all tensors are floating point and on the device of the query."""
    for name, tensor in {"query": query, **others}.items():
        if tensor is None and name.startswith("edge_"):
            continue
        check_tensor(tensor, name)
        if not tensor.is_floating_point():
            remedy = "convert it first"
            if name == "edge_bias" and tensor.dtype == torch.bool:
                remedy = "for a mask, pass torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)"
            raise TypeError(f"{name} must be floating point, got {tensor.dtype}; {remedy}")
        if tensor.device != query.device:
            raise ValueError(f"{name} is on {tensor.device}, but query is on {query.device}")


def _check_shapes(
    layout: EdgeLayout, query: Tensor, key: Tensor, value: Tensor, frontier: Tensor | None
) -> None:
    if frontier is not None:
        check_tensor(frontier, "frontier")
        if frontier.device != query.device:
            raise ValueError(f"frontier is on {frontier.device}, but query is on {query.device}")
        check_frontier(layout, frontier)
    rows = layout.num_dst if frontier is None else frontier.numel()
    for dim, what in ((1, "heads"), (2, "features")):
        if not query.shape[dim]:
            raise ValueError(f"query has no {what}: its shape is {tuple(query.shape)}")
    if query.shape[0] != rows:
        what = "graph has {} destinations" if frontier is None else "frontier has {} nodes"
        raise ValueError(f"query has {query.shape[0]} rows, but the {what.format(rows)}")
    for name, tensor in (("key", key), ("value", value)):
        if tensor.shape[0] != layout.num_src:
            raise ValueError(
                f"{name} has {tensor.shape[0]} rows, but the graph has {layout.num_src} sources"
            )
        if tensor.shape[1] != query.shape[1]:
            raise ValueError(f"{name} has {tensor.shape[1]} heads, but query has {query.shape[1]}")
    if key.shape[2] != query.shape[2]:
        raise ValueError(f"key has {key.shape[2]} features a head, but query has {query.shape[2]}")


def check_frontier(layout: EdgeLayout, frontier: Tensor) -> None:
    """Raise unless `frontier` has int64 ids of destinations of the graph, sorted and unique."""
    check_tensor(frontier, "frontier")
    if frontier.dim() != 1 or frontier.dtype != torch.int64:
        raise TypeError(
            f"frontier must be a 1-D int64 tensor of destination ids, got shape "
            f"{tuple(frontier.shape)} and {frontier.dtype}"
        )
    if frontier.numel() == 0:
        return
    rising = (frontier[1:] > frontier[:-1]).all().long()
    # One transfer, so that the host waits for a GPU only once.
    rises, first, last = torch.stack([rising, frontier[0], frontier[-1]]).tolist()
    if not rises:
        raise ValueError("frontier must be sorted and without repeats; use frontier.unique()")
    if first < 0 or last >= layout.num_dst:
        missing = first if first < 0 else last
        raise ValueError(f"frontier names destination {missing}; the graph has {layout.num_dst}")


def refuse_output(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Raise `ValueError` that says why the output of attention is not finite."""
    check_finite(query=query, key=key, value=value)
    wide = torch.promote_types(query.dtype, torch.float32)
    raise ValueError(f"scores or values overflow {wide}: scale down queries, keys, bias or values")


def check_finite(*, may_be_minus_inf: bool = False, **tables: Tensor) -> None:
    """Raise if a CPU tensor has a non-finite entry; skip tensors on a GPU, to not wait for it."""
    if torch.compiler.is_compiling() or _skipping.get():
        return
    for name, table in tables.items():
        check_tensor(table, name)
        if table.device.type != "cpu":
            continue
        total = float(table.detach().sum())  # one pass without temporary memory
        if isfinite(total) or (may_be_minus_inf and total < inf):
            continue
        refused = ~(table < inf) if may_be_minus_inf else ~table.isfinite()
        for place in refused.nonzero().tolist():
            must = "-inf or finite (the logarithm of a negative weight is nan)"
            raise ValueError(
                f"{name}{place} is {table[tuple(place)].item()}: it must be "
                f"{must if may_be_minus_inf else 'finite'}"
            )


def check_nonempty_rows(call: AttentionCall) -> None:
    """Raise if a query row has no in-edge, or in some head only in-edges with the bias `-inf`."""
    if call.layout.has_empty_rows:
        degrees = call.layout.in_degrees
        empty = (degrees if call.frontier is None else degrees[call.frontier]) == 0
        remedy = (
            "add self-loops (dgl.add_self_loop, torch_geometric.utils.add_self_loops, or "
            "'|window:0' to a topology)"
        )
        _refuse_rows(call, empty, "have no in-edge to attend to", remedy)
    if is_capturing() or call.edge_bias is None:
        return
    bias = call.bias()
    if bias is not None and bool((bias == -torch.inf).any()):
        top = row_maxima(bias.detach(), call.edges[0], call.query.shape[0])
        hidden = (top == -torch.inf).any(1)
        _refuse_rows(call, hidden, "have no in-edge whose bias is above -inf", "raise one")


def _refuse_rows(call: AttentionCall, refused: Tensor, what: str, remedy: str) -> None:
    if not bool(refused.any()):
        return
    rows = refused.nonzero()[:, 0]
    nodes = (rows if call.frontier is None else call.frontier[rows]).tolist()
    named = ", ".join(map(str, nodes[:5])) + (", ..." if len(nodes) > 5 else "")
    raise ValueError(
        f"{len(nodes)} destination(s) {what} (node {named}): {remedy}, or construct the layer with "
        "allow_zero_in_degree=True, which outputs zeros for them"
    )
