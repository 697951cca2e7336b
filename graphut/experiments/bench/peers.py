"""Other implementations of attention, which the attention benchmark compares with graphut's."""

import warnings
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from graphut.attention import IntervalLayout
from graphut.experiments.bench.attention_workload import (
    AttentionWorkload,
    Prepare,
    Prepared,
    gradient_run,
)
from graphut.experiments.bench.padding import pad, padded_mask, present_positions, rows_by_sentence
from graphut.experiments.bench.peak_memory import free_bytes

_GIB = 1 << 30
# PyG tensors of size edges x features alive at once: three gathered, a product, gradients.
_PYG_MESSAGES = 6


def prepare_pyg(workload: AttentionWorkload) -> Prepared:
    """Prepare the attention in PyG's `TransformerConv` (arXiv 2009.03509), without linear maps."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyG uses what torch deprecates
        from torch_geometric.nn import TransformerConv
    (row, source), (query, key, *_) = workload.in_edges, workload.tensors
    check_memory(_PYG_MESSAGES * len(row) * workload.dim * query.element_size(), workload.device)
    edge_index, size = torch.stack([source, row]), (len(key), len(query))
    per_head = workload.dim // workload.heads
    conv = TransformerConv(per_head, per_head, heads=workload.heads, root_weight=False)

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        out: Tensor = conv.propagate(
            edge_index, query=query, key=key, value=value, edge_attr=None, size=size
        )
        return out

    return Prepared(gradient_run(attend, workload.tensors[:3], workload.tensors[3]))


def prepare_padded(workload: AttentionWorkload) -> Prepared:
    """Prepare scaled-dot-product attention on a batch that is padded before the timing.

    The batch of queries contains only active nodes, so it may be shorter than the batch of keys.
    """
    layout = workload.layout
    rows = present_positions(rows_by_sentence(layout, workload.frontier))
    sources = present_positions(layout.src_lengths.to(layout.device))
    query, key, value, upstream = workload.tensors
    # The boolean mask, and the numeric one that torch converts it to.
    entry = 2 + query.element_size()
    check_memory(rows.numel() * sources.shape[1] * entry, workload.device)
    mask = padded_mask(rows, sources, workload.in_edges)

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        query, key, value = (x.transpose(1, 2) for x in (query, key, value))
        return scaled_dot_product_attention(query, key, value, attn_mask=mask).transpose(1, 2)

    def unpad(results: Sequence[Tensor]) -> list[Tensor]:
        batches = (rows, rows, sources, sources)
        return [x[present] for present, x in zip(batches, results, strict=True)]

    inputs = (pad(query, rows), pad(key, sources), pad(value, sources))
    return Prepared(gradient_run(attend, inputs, pad(upstream, rows)), unpad)


def prepare_flex(workload: AttentionWorkload) -> Prepared:
    """Prepare `flex_attention` for timing: all sentences in one sequence, masked by their edges."""
    if workload.device.type != "cuda":
        raise NotImplementedError("flex_attention has no backward on the CPU")
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    kernel = torch.compile(flex_attention)
    rows, sources = (len(x) for x in workload.tensors[:2])
    check_memory(2 * rows * sources, workload.device)
    device = str(workload.device)
    blocks = create_block_mask(flex_mask(workload), None, None, rows, sources, device=device)

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        query, key, value = (x.transpose(0, 1)[None] for x in (query, key, value))
        return kernel(query, key, value, block_mask=blocks)[0].transpose(0, 1)

    return Prepared(gradient_run(attend, workload.tensors[:3], workload.tensors[3]))


def flex_mask(workload: AttentionWorkload) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """Return a `mask_mod` for `flex_attention`: a function that tells if a query reads a source."""
    layout = workload.layout
    if isinstance(layout, IntervalLayout):
        nodes = slice(None) if workload.frontier is None else workload.frontier
        lo, hi = layout.lo[nodes], layout.hi[nodes]
        return lambda batch, head, row, source: (source >= lo[row]) & (source < hi[row])
    shape = (len(workload.tensors[0]), layout.num_src)
    table = torch.zeros(shape, dtype=torch.bool, device=layout.device)
    table[workload.in_edges] = True
    return lambda batch, head, row, source: table[row, source]


def check_memory(needed: int, device: torch.device) -> None:
    """Raise `MemoryError` if fewer than `needed` bytes are free on a device."""
    free = free_bytes(device)
    if free is not None and needed > free:
        raise MemoryError(f"needs about {needed / _GIB:.0f} GiB, {free / _GIB:.0f} GiB are free")


PEERS: dict[str, Prepare] = {
    "pyg": prepare_pyg, "padded": prepare_padded, "flex": prepare_flex
}  # fmt: skip
