"""Other implementations of the same attention, each used if it is there and fits into memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from graphut.attention import IntervalLayout
from graphut.attention.layout import sentence_cuts
from graphut.experiments.bench.implementations import Implementation, Prepare, UnavailableError
from graphut.experiments.bench.padding import PaddedBatch, padded_mask, rows_by_sentence
from graphut.experiments.bench.peak_memory import free_bytes
from graphut.experiments.bench.workloads import AttentionProblem
from graphut.topology import Causal, Complete

_GIB = 1 << 30
# PyG's tensors of edges x features that are alive at once: three gathered, a product, gradients.
_PYG_MESSAGES = 6
_FlexKernel = Callable[..., Tensor]


def prepare_pyg(problem: AttentionProblem) -> Implementation:
    """Return the attention of PyG's `TransformerConv` (arXiv 2009.03509).

    Its message passing is called with query, key and value as they are, so that the numbers are
    the same for all; its four linear maps are left out.
    """
    _check_no_bias(problem)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyG uses what torch deprecates
            from torch_geometric.nn import TransformerConv
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("torch_geometric"):
            raise  # PyG is there, and a package that it needs is not
        raise UnavailableError("not installed: pip install torch_geometric") from error
    rows, nodes = problem.rows, problem.layout.num_src
    messages = problem.edges * problem.dim * problem.inputs[0].element_size()
    check_memory(_PYG_MESSAGES * messages, problem.device)
    row, source = problem.in_edges
    edge_index = torch.stack([source, row])
    per_head = problem.dim // problem.heads
    conv = TransformerConv(per_head, per_head, heads=problem.heads, root_weight=False)

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return conv.propagate(
            edge_index, query=query, key=key, value=value, edge_attr=None, size=(nodes, rows)
        )

    return Implementation(attend)


def prepare_padded(problem: AttentionProblem) -> Implementation:
    """Return scaled-dot-product attention of a padded batch, with a mask.

    The inputs are padded already, as they are in a model that pads: padding is not timed. Active
    queries are packed to the left of a padded batch of their own.
    """
    _check_no_bias(problem)
    layout = problem.layout
    rows = PaddedBatch.of(rows_by_sentence(layout, problem.frontier))
    sources = PaddedBatch.of(layout.src_lengths.to(layout.device))
    # The mask as booleans, and once more as numbers, which torch makes of it.
    entry = 2 + problem.inputs[0].element_size()
    check_memory(rows.present.numel() * sources.present.shape[1] * entry, problem.device)
    mask = padded_mask(rows, sources, problem.in_edges)

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        query, key, value = (x.transpose(1, 2) for x in (query, key, value))
        return scaled_dot_product_attention(query, key, value, attn_mask=mask).transpose(1, 2)

    return Implementation(attend, rows, sources)


def prepare_sentences(problem: AttentionProblem) -> Implementation:
    """Return one call of scaled-dot-product attention for each sentence, without padding."""
    _check_no_bias(problem)
    layout = problem.layout
    sizes = layout.src_lengths.tolist()
    active = rows_by_sentence(layout, problem.frontier)
    counts = active.tolist()
    check_memory(2 * len(sizes) * max(counts) * max(sizes), problem.device)
    sources = PaddedBatch.of(layout.src_lengths.to(layout.device))
    masks = padded_mask(PaddedBatch.of(active), sources, problem.in_edges)[:, 0]
    mask_options = [
        _mask_options(mask[:count, :size].expand(count, size))
        for mask, count, size in zip(masks, counts, sizes, strict=True)
    ]

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        parts = []
        split = (query.split(counts), key.split(sizes), value.split(sizes))
        for q, k, v, (mask, causal) in zip(*split, mask_options, strict=True):
            if not len(q):
                continue
            q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
            out = scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
            parts.append(out[0].transpose(0, 1))
        return torch.cat(parts)

    return Implementation(attend)


def _mask_options(mask: Tensor) -> tuple[Tensor | None, bool]:
    """Return `attn_mask` and `is_causal`: no mask where none is needed."""
    if bool(mask.all()):
        return None, False
    if mask.shape[0] == mask.shape[1] and torch.equal(mask, torch.ones_like(mask).tril()):
        return None, True
    return mask.contiguous(), False


def prepare_nested(problem: AttentionProblem) -> Implementation:
    """Return scaled-dot-product attention of nested tensors: sentences without padding."""
    _check_no_bias(problem)
    causal = isinstance(problem.topology, Causal)
    if problem.frontier is not None or not (causal or isinstance(problem.topology, Complete)):
        raise UnavailableError("takes all rows of complete or causal graphs alone")
    if causal and problem.device.type == "cpu":
        raise UnavailableError("has no causal kernel for the CPU")
    offsets, lengths = sentence_cuts(problem.layout)[1], problem.layout.src_lengths
    bounds: dict[str, Any] = {"min_seqlen": int(lengths.min()), "max_seqlen": int(lengths.max())}

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch calls all nested tensors a prototype
            query, key, value = (
                torch.nested.nested_tensor_from_jagged(x, offsets, **bounds).transpose(1, 2)
                for x in (query, key, value)
            )
            out = scaled_dot_product_attention(query, key, value, is_causal=causal)
            return out.transpose(1, 2).values()

    return Implementation(attend)


def prepare_flex(
    problem: AttentionProblem, compiled: Callable[[_FlexKernel], _FlexKernel] | None = None
) -> Implementation:
    """Return `flex_attention` over all sentences in one row; blocks without edges are skipped.

    `compiled` compiles the kernel; if it is not given, `torch.compile` does, and only for CUDA.
    """
    if compiled is None and problem.device.type != "cuda":
        raise UnavailableError("flex_attention has no backward on the CPU")
    try:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    except ModuleNotFoundError as error:
        raise UnavailableError("came with torch 2.5") from error
    kernel = (compiled or torch.compile)(flex_attention)
    _check_no_bias(problem)
    rows, sources = problem.rows, problem.layout.num_src
    check_memory(2 * rows * sources, problem.device)
    device = str(problem.device)
    blocks = create_block_mask(_flex_mask(problem), None, None, rows, sources, device=device)

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        query, key, value = (x.transpose(0, 1)[None] for x in (query, key, value))
        return kernel(query, key, value, block_mask=blocks)[0].transpose(0, 1)

    return Implementation(attend)


def _flex_mask(problem: AttentionProblem) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """Return a mask by the bounds of each row's interval, or by a table where there is none."""
    layout = problem.layout
    if isinstance(layout, IntervalLayout):
        every = torch.arange(layout.num_dst, device=layout.device)
        nodes = every if problem.frontier is None else problem.frontier
        lo, hi = layout.lo[nodes], layout.hi[nodes]
        return lambda batch, head, row, source: (source >= lo[row]) & (source < hi[row])
    table = torch.zeros(problem.rows, layout.num_src, dtype=torch.bool, device=layout.device)
    table[problem.in_edges] = True
    return lambda batch, head, row, source: table[row, source]


def check_memory(needed: int, device: torch.device) -> None:
    """Raise `UnavailableError` if fewer than the needed bytes are free."""
    free = free_bytes(device)
    if free is not None and needed > free:
        raise UnavailableError(
            f"needs about {needed / _GIB:.0f} GiB, {free / _GIB:.0f} GiB are free"
        )


def _check_no_bias(problem: AttentionProblem) -> None:
    if problem.biased:
        raise UnavailableError("takes no edge bias")


PEERS: dict[str, Prepare] = {
    "pyg": prepare_pyg,
    "padded": prepare_padded,
    "sentences": prepare_sentences,
    "nested": prepare_nested,
    "flex": prepare_flex,
}
"""Other implementations, by name."""
