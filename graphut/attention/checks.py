"""Errors of what is wrong with an attention call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf, isfinite, prod
from threading import local

import torch
from torch import Tensor
from torch.linalg import vector_norm

from graphut.attention.call import AttentionCall
from graphut.attention.edge_sums import edge_dot, edge_sum
from graphut.attention.layout import EdgeLayout
from graphut.attention.transforms import in_vmap, outside_transforms, unwrap_functorch


def check_call(
    layout: EdgeLayout,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    frontier: Tensor | None,
    edge_bias: Tensor | None,
    relative_bias: Tensor | None,
    edge_weight: Tensor | None,
    scale: float | Tensor | None,
    dropout: float,
) -> None:
    """Raise unless features, frontier, bias, weight, scale and dropout fit the graph."""
    tensors = {"query": query, "key": key, "value": value}
    for name, tensor in tensors.items():
        if tensor.dim() != 3:
            raise ValueError(
                f"{name} must be (nodes, heads, features), got shape {tuple(tensor.shape)}"
            )
    by_edge = {"edge_bias": edge_bias, "relative_bias": relative_bias, "edge_weight": edge_weight}
    _check_floating(query=query, **by_edge)
    for name, other in {**tensors, "frontier": frontier, **by_edge, "scale": scale}.items():
        if isinstance(other, Tensor) and other.device != query.device:
            raise ValueError(f"{name} is on {other.device}, but query is on {query.device}")
    check_dtypes(query, key, value)
    _check_shapes(layout, query, key, value, frontier)
    if edge_bias is not None:
        _check_by_edge("edge_bias", layout, edge_bias, query.shape[1])
        _check_numbers("edge_bias", edge_bias, "edge")
    if relative_bias is not None:
        _check_relative_bias(layout, relative_bias, query.shape[1])
        _check_numbers("relative_bias", relative_bias, "head")
    if edge_weight is not None:
        _check_by_edge("edge_weight", layout, edge_weight, query.shape[1])
        _check_finite_numbers("edge_weight", edge_weight, "edge")
    _check_scale(scale, query.shape[0])
    if not 0.0 <= dropout < 1.0:
        raise ValueError(f"dropout must lie in [0, 1), got {dropout}")


def check_dtypes(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Raise `TypeError` unless query, key and value have one dtype."""
    for name, tensor in (("key", key), ("value", value)):
        if tensor.dtype != query.dtype:
            raise TypeError(f"{name} is {tensor.dtype}, but query is {query.dtype}")


def check_edge_feat(
    layout: EdgeLayout, query: Tensor, value: Tensor, edge_feat: Tensor, edge_map: Tensor | None
) -> None:
    """Raise unless edges have features that can be added to keys and values, or mapped to them."""
    given = {"edge_feat": edge_feat, "edge_map": edge_map}
    _check_floating(**given)
    for name, tensor in given.items():
        if tensor is not None and tensor.device != query.device:
            raise ValueError(f"{name} is on {tensor.device}, but query is on {query.device}")
    heads, feats = query.shape[1:]
    if value.shape[2] != feats:
        raise ValueError(
            f"edge_feat is added to key and value, which must be as wide, got {feats} and "
            f"{value.shape[2]} features a head"
        )
    by_head: tuple[int, ...] = (heads, feats)
    fits = True
    if edge_map is not None:
        by_head, fits = edge_map.shape[2:], edge_map.shape[:2] == (heads, feats)
    if not fits or edge_feat.shape != (layout.num_edges, *by_head):
        raise ValueError(
            f"edge_feat must be ({layout.num_edges}, F) with an edge_map ({heads}, {feats}, F), or "
            f"({layout.num_edges}, {heads}, {feats}) without, got shapes {tuple(edge_feat.shape)} "
            f"and {None if edge_map is None else tuple(edge_map.shape)}"
        )
    _check_finite_numbers("edge_feat", edge_feat, "edge")


def _check_floating(**given: Tensor | None) -> None:
    """Raise `TypeError` if one is not a tensor of floating-point numbers."""
    for name, tensor in given.items():
        if tensor is None:
            continue
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name} must be a tensor, got {type(tensor).__name__} {tensor!r}")
        if not tensor.is_floating_point():
            remedy = "convert it first"
            if name == "edge_bias" and tensor.dtype == torch.bool:
                remedy = "for a mask, give torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)"
            raise TypeError(f"{name} must be floating point, got {tensor.dtype}; {remedy}")


_skipping = local()


@contextmanager
def skip_checks(skip: bool = True) -> Iterator[None]:
    """Let `edge_attention` skip its checks, which read whole tables.

    It is for a caller that repeats a checked call with other rows.
    """
    before = checks_are_skipped()
    _skipping.value = before or skip
    try:
        yield
    finally:
        _skipping.value = before


def checks_are_skipped() -> bool:
    """Return whether `skip_checks` is active in this thread.

    Examples
    --------
    >>> with skip_checks():
    ...     checks_are_skipped()
    True
    >>> checks_are_skipped()
    False
    """
    return getattr(_skipping, "value", False)


def is_tracing() -> bool:
    """Return whether tensors have no numbers to look at, since a program traces them, or many."""
    return torch.compiler.is_compiling() or in_vmap() or is_capturing()


def is_capturing() -> bool:
    """Return whether work on a GPU is recorded for a CUDA graph, and not done now."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


def bound_rows(*tables: Tensor) -> list[float]:
    """Return, for each table, at least the norm of each of its rows `(H, D)`."""
    return [_bound(table) for table in tables]


def _bound(table: Tensor) -> float:
    dims = None if table.is_contiguous() else (1, 2)  # one norm is slow where rows have gaps
    wide = torch.promote_types(table.dtype, torch.float32)
    return float(vector_norm(table.detach(), dim=dims, dtype=wide).sum())


def check_features(call: AttentionCall, bounds: Callable[..., list[float]] = bound_rows) -> None:
    """Raise if a feature is not a finite number, or a score or a sum not one of its dtype.

    `bounds` does what `bound_rows` does; a bound may be what is not finite.
    """
    if is_tracing():
        return
    # |q . k| <= |q| |k|: one pass over each. So little does not take a finite bias to infinity.
    width = torch.finfo(call.score_dtype)
    query, key, value = bounds(call.query, call.key, call.value)
    score = query * key * max(1.0, abs(call.scale))
    if call.edge_query is not None and call.edge_feat is not None:
        score += prod(bounds(call.edge_query, call.edge_feat))
    if score < width.max * width.eps / 4 and isfinite(value):
        return
    check_finite(query=call.query, key=call.key, value=call.value)
    _check_scores(call)
    _check_sums(call)


def _check_scores(call: AttentionCall) -> None:
    row, source, _ = call.edges
    query, key = (x.detach().abs().double() for x in (call.query, call.key))
    terms = edge_dot(query, key, row, source) * max(1.0, abs(call.scale))
    bias = call.bias()
    if bias is not None:
        terms = terms + bias.detach().masked_fill(bias == -inf, 0.0).abs()
    wrong = (~(terms <= torch.finfo(call.score_dtype).max)).nonzero().tolist()
    if wrong:
        edge, head = wrong[0]
        node = _node(call, row[edge])
        raise ValueError(
            f"the score of source {int(source[edge])} for destination {node}, head {head}, "
            f"has terms of {terms[edge, head].item():.2g} in all, too many for "
            f"{call.score_dtype}: make queries, keys or bias smaller"
        )


def _check_sums(call: AttentionCall) -> None:
    # A backend may sum values before it divides by the sum of weights.
    row, source, _ = call.edges
    value, factors = call.value.detach().abs().double(), call.weight_factors()
    weights = value.new_ones(len(row), value.shape[1])
    if factors is not None:
        weights = weights * factors.detach().abs()
    sums = edge_sum(weights, value, row, source, call.query.shape[0])
    wrong = (~(sums <= torch.finfo(call.score_dtype).max)).nonzero().tolist()
    if wrong:
        first, head, feature = wrong[0]
        raise ValueError(
            f"the values that destination {_node(call, first)} attends to, head {head}, are "
            f"{sums[first, head, feature].item():.2g} in all, too many for {call.score_dtype}: "
            "make values smaller"
        )


def _node(call: AttentionCall, row: Tensor | int) -> int:
    return int(row if call.frontier is None else call.frontier[row])


def check_finite(**tables: Tensor) -> None:
    """Raise if a feature is not a finite number; a table's name is that of its argument."""
    if is_tracing():
        return
    for name, table in tables.items():
        # A sum takes one pass and no memory; only where it is not finite, entries are looked at.
        if bool(table.detach().sum().isfinite()):
            continue
        wrong = (~table.isfinite()).nonzero().tolist()
        if wrong:
            row, head, feature = wrong[0]
            raise ValueError(
                f"{name} is {table[row, head, feature].item()} in row {row}, head {head}: "
                "features and weights must be finite numbers"
            )


def _check_shapes(
    layout: EdgeLayout, query: Tensor, key: Tensor, value: Tensor, frontier: Tensor | None
) -> None:
    if frontier is not None:
        check_frontier(layout, frontier)
    rows = layout.num_dst if frontier is None else frontier.numel()
    if not query.shape[2]:
        raise ValueError(f"query has no features: its shape is {tuple(query.shape)}")
    if query.shape[0] != rows:
        what = "the graph's destinations" if frontier is None else "the frontier"
        raise ValueError(f"query has {query.shape[0]} rows, but there are {rows} in {what}")
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
    """Raise unless a frontier names destinations of the graph, each once and in order."""
    if not isinstance(frontier, Tensor):
        raise TypeError(f"frontier must be a tensor of destination ids, got {frontier!r}")
    if frontier.dim() != 1 or frontier.dtype != torch.int64:
        raise TypeError(
            f"frontier must be a 1-D int64 tensor of destination ids, got shape "
            f"{tuple(frontier.shape)} and {frontier.dtype}"
        )
    if frontier.numel() == 0 or torch.compiler.is_compiling():
        return  # a traced program cannot look at numbers
    with outside_transforms():
        frontier = unwrap_functorch(frontier)
        rising = (frontier[1:] > frontier[:-1]).all().long()
        # A GPU is waited for once.
        rises, first, last = torch.stack([rising, frontier[0], frontier[-1]]).tolist()
    if not rises:
        raise ValueError("frontier must be sorted and without repeats; use frontier.unique()")
    if first < 0 or last >= layout.num_dst:
        wrong = first if first < 0 else last
        raise ValueError(f"frontier names destination {wrong}; the graph has {layout.num_dst}")


def _check_by_edge(name: str, layout: EdgeLayout, given: Tensor, heads: int) -> None:
    edges = layout.num_edges
    if given.shape not in {(edges,), (edges, 1), (edges, heads)}:
        raise ValueError(
            f"{name} must be ({edges},) or ({edges}, {heads}) for this graph's edges, got shape "
            f"{tuple(given.shape)}"
        )


def _check_relative_bias(layout: EdgeLayout, relative_bias: Tensor, heads: int) -> None:
    shape = tuple(relative_bias.shape)
    if len(shape) != 2 or shape[0] != heads or shape[1] % 2 != 1:
        raise ValueError(
            f"relative_bias must be ({heads}, 2 R + 1), for offsets from -R to R, got shape {shape}"
        )
    if not torch.equal(layout.src_lengths, layout.dst_lengths):
        raise ValueError(
            "relative_bias is for graphs whose sources are their destinations; this one has "
            f"{layout.num_src} sources and {layout.num_dst} destinations: give an edge_bias"
        )


def _check_scale(scale: float | Tensor | None, rows: int) -> None:
    if isinstance(scale, Tensor):
        if scale.shape != (rows,):
            raise ValueError(
                f"scale must be a number or have one entry for each of the {rows} query rows, got "
                f"shape {tuple(scale.shape)}"
            )
        _check_finite_numbers("scale", scale, "query row")
    elif not isfinite(scale or 0.0):
        raise ValueError(f"scale must be a finite number, got {scale}")


def _check_numbers(name: str, bias: Tensor, row: str) -> None:
    """Raise for `nan` and `inf`; `-inf` is a score like others."""
    if is_tracing() or bias.device.type != "cpu":  # a GPU is not waited for
        return
    if bool(bias.detach().sum() < inf):  # one pass, and no memory
        return
    wrong = (~(bias < inf)).nonzero().tolist()
    if wrong:
        raise ValueError(
            f"{name} is {bias[tuple(wrong[0])].item()} for {row} {wrong[0][0]}: it must be a "
            "number, or -inf (a weight below 0 has no logarithm)"
        )


def _check_finite_numbers(name: str, given: Tensor, row: str) -> None:
    if is_tracing() or given.device.type != "cpu" or isfinite(given.detach().sum()):
        return
    wrong = (~given.isfinite()).nonzero().tolist()
    if wrong:
        number = given[tuple(wrong[0])].item()
        raise ValueError(f"{name} is {number} for {row} {wrong[0][0]}: it must be a finite number")


def check_nonempty_rows(call: AttentionCall) -> None:
    """Raise if a query row has no in-edge, or none whose bias is above `-inf`."""
    if call.layout.has_empty_rows:
        degrees = call.layout.in_degrees
        dead = (degrees if call.frontier is None else degrees[call.frontier]) == 0
        _refuse(
            call,
            dead,
            "have no in-edge to attend to",
            "add self-loops (dgl.add_self_loop, torch_geometric.utils.add_self_loops, or "
            "'|window:0' to a topology)",
        )
    if is_tracing() or (call.edge_bias is None and call.relative_bias is None):
        return
    bias = call.bias()
    if bias is not None and bool((bias == -torch.inf).any()):
        index = call.edges[0][:, None].expand_as(bias)
        top = bias.new_full((call.query.shape[0], bias.shape[1]), -torch.inf)
        top = top.scatter_reduce(0, index, bias.detach(), "amax")
        dead = (top == -torch.inf).any(1)
        _refuse(call, dead, "have no in-edge whose bias is above -inf", "leave them one")


def _refuse(call: AttentionCall, dead: Tensor, what: str, remedy: str) -> None:
    if not bool(dead.any()):
        return
    rows = dead.nonzero()[:, 0]
    nodes = (rows if call.frontier is None else call.frontier[rows]).tolist()
    named = ", ".join(map(str, nodes[:5])) + (", ..." if len(nodes) > 5 else "")
    raise ValueError(
        f"{len(nodes)} destination(s) {what} (node {named}): {remedy}, or make the attention with "
        "allow_zero_in_degree=True, which gives them zeros"
    )
