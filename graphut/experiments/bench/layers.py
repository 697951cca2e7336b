"""The benchmark of graph layers."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from graphut._dgl import DGLGraph, dgl
from graphut.experiments.bench.driver import CPU, Row, largest_error, measure
from graphut.experiments.bench.options import LayerOptions
from graphut.nn import MultiHeadAttention, from_edge_index

PEERS = ("dgl DotGatConv", "dgl GATConv", "pyg TransformerConv")
_TWINS = {"TransformerConv": PEERS[2]}  # layers with equal weights


def bench_layers(options: LayerOptions) -> list[Row]:
    """Measure time and memory of graph layers, forward and backward, on the CPU.

    The output of `TransformerConv` is compared with that of PyG's layer. With `seeds`, each timed
    call builds the edge layouts of the blocks.
    """
    nodes, edges, seeds = options.nodes, options.edges, options.seeds
    blocks = random_blocks(nodes, edges, power_law=options.power_law, seeds=seeds)
    runs = layer_runs(blocks, options.dim, options.heads)
    errors = {name: largest_error([runs[name]()], [runs[twin]()]) for name, twin in _TWINS.items()}
    notes = ", power law" * options.power_law
    notes += "" if seeds is None else f", blocks for {seeds:,} nodes"
    workload = f"{nodes:,} nodes, {edges:,} edges{notes}, {options.dim} features"
    rows = measure(workload, runs, repeats=options.repeats, device=CPU)
    return [{**row, "error": errors.get(row["contender"])} for row in rows]


def random_blocks(
    nodes: int, edges: int, *, power_law: bool = False, seeds: int | None = None
) -> list[DGLGraph]:
    """Return a list of one fixed random graph with self-loops or, with `seeds`, of two blocks.

    The blocks are sampled with 10 in-neighbours per node for a mini-batch of `seeds` nodes.
    """
    drawn = torch.rand(2, edges, generator=torch.Generator().manual_seed(0))
    if power_law:
        drawn = drawn ** torch.tensor([[3.0], [2.0]])
    src, dst = (nodes * drawn).long().clamp_max(nodes - 1)
    graph = dgl.add_self_loop(dgl.graph((src, dst), num_nodes=nodes))
    if seeds is None:
        return [graph]
    dgl.seed(0)
    sampler = dgl.dataloading.NeighborSampler([10, 10])
    blocks: list[DGLGraph] = sampler.sample_blocks(graph, torch.arange(seeds))[2]
    return blocks


def layer_runs(blocks: list[DGLGraph], dim: int, heads: int) -> dict[str, Callable[[], Tensor]]:
    """Return a dictionary from layer names to functions that run one such layer on each block."""
    from graphut.nn.pyg_layers import TransformerConv  # PyG is an extra

    pyg_layer: type[nn.Module] = TransformerConv.__base__
    edges = [torch.stack(block.edges()) for block in blocks]
    sizes = [(block.num_src_nodes(), block.num_dst_nodes()) for block in blocks]
    layout_of_graph = from_edge_index(edges[0], sizes[0])

    def on_layout(layer: Any, n: int, feat: Tensor) -> Any:
        layout = layout_of_graph if len(blocks) == 1 else from_edge_index(edges[n], sizes[n])
        return layer(layout, feat)

    def on_dgl(layer: Any, number: int, feat: Tensor) -> Any:
        return layer(blocks[number], feat)

    def on_pyg(layer: Any, number: int, feat: Tensor) -> Any:
        return layer((feat, feat[: sizes[number][1]]), edges[number])

    feats = dim // heads
    makers: dict[str, tuple[Callable[..., Any], Callable[[], nn.Module]]] = {
        "MultiHeadAttention": (on_layout, lambda: MultiHeadAttention(dim, heads)),
        "TransformerConv": (on_pyg, lambda: TransformerConv(dim, feats, heads)),
        PEERS[0]: (on_dgl, lambda: dgl.nn.DotGatConv(dim, feats, heads)),
        PEERS[1]: (on_dgl, lambda: dgl.nn.GATConv(dim, feats, heads)),
        PEERS[2]: (on_pyg, lambda: pyg_layer(dim, feats, heads)),
    }  # fmt: skip
    torch.manual_seed(0)
    x = torch.randn(sizes[0][0], dim)
    layers = {name: [make() for _ in blocks] for name, (_, make) in makers.items()}
    for name, twin in _TWINS.items():
        for layer, other in zip(layers[name], layers[twin], strict=True):
            layer.load_state_dict(other.state_dict())
    return {name: partial(_run, layers[name], call, x) for name, (call, _) in makers.items()}


def _run(layers: list[nn.Module], call: Callable[..., Tensor], feat: Tensor) -> Tensor:
    """Apply the layers in turn by `call(layer, index, feat)`, then backward; return the output."""
    leaf = feat.detach().requires_grad_()
    out = leaf
    for number, layer in enumerate(layers):
        out = call(layer, number, out).flatten(1)
    torch.autograd.backward(out, torch.ones_like(out))
    return out.detach()
