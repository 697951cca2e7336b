"""Compare graph layers with those of DGL and PyG on a random graph, forward and backward.

    python examples/benchmarks/layers.py
    python examples/benchmarks/layers.py --seeds 1024 --power-law

With `--seeds`, two layers run on blocks that are sampled with 10 in-neighbours for each node, and a
call includes the layouts of the blocks.
"""

from functools import partial
from typing import Any

import common
import torch

from graphut._dgl import dgl
from graphut.nn import MultiHeadAttention, from_edge_index
from graphut.nn.pyg_layers import TransformerConv


def draw_blocks(options: Any) -> list[Any]:
    """Return one random graph with self-loops or, with `seeds`, two sampled blocks."""
    drawn = torch.rand(2, options.edges, generator=torch.Generator().manual_seed(0))
    drawn = drawn ** torch.tensor([[3.0], [2.0]]) if options.power_law else drawn
    ends = (options.nodes * drawn).long().clamp_max(options.nodes - 1)
    graph = dgl.add_self_loop(dgl.graph((*ends,), num_nodes=options.nodes))
    dgl.seed(0)
    sample = dgl.dataloading.NeighborSampler([10, 10]).sample_blocks
    return sample(graph, torch.arange(options.seeds))[2] if options.seeds else [graph]


def bench_layers(options: Any) -> list[common.Row]:
    """Return a row for each layer. Both layers `TransformerConv` have the same weights."""
    blocks, dim, heads = draw_blocks(options), options.dim, options.heads
    edges = [torch.stack(block.edges()) for block in blocks]
    sizes = [(block.num_src_nodes(), block.num_dst_nodes()) for block in blocks]
    whole = None if options.seeds else from_edge_index(edges[0], sizes[0])
    feat, shape = torch.randn(sizes[0][0], dim), (dim, dim // heads, heads)
    kinds: dict[str, Any] = {
        "dgl GATConv": partial(dgl.nn.GATConv, *shape),
        "dgl DotGatConv": partial(dgl.nn.DotGatConv, *shape),
        "pyg TransformerConv": partial(TransformerConv.__base__, *shape),
        "TransformerConv": partial(TransformerConv, *shape),
        "MultiHeadAttention": partial(MultiHeadAttention, dim, heads),
    }

    def call(name: str, layer: Any, n: int, x: torch.Tensor) -> Any:
        if name.startswith("dgl"):
            return layer(blocks[n], x)
        if name.endswith("TransformerConv"):
            return layer((x, x[: sizes[n][1]]), edges[n])
        return layer(whole or from_edge_index(edges[n], sizes[n]), x)

    def run(name: str, layers: list[Any]) -> torch.Tensor:
        out = feat.clone().requires_grad_()
        for n, layer in enumerate(layers):
            out = call(name, layer, n, out).flatten(1)
        torch.autograd.backward(out, torch.ones_like(out))
        return out.detach()

    runs = {}
    for name, make in kinds.items():
        torch.manual_seed(0)
        runs[name] = partial(run, name, [make() for _ in blocks])
    error = common.relative_error(*([runs[n + "TransformerConv"]()] for n in ("", "pyg ")))
    title = f"{options.nodes:,} nodes, {options.edges:,} edges" + ", power law" * options.power_law
    title += f", blocks for {options.seeds:,} nodes" * bool(options.seeds) + f", {dim} features"
    return common.time_in_turns(title, runs, options.repeats, error=error)


if __name__ == "__main__":
    sizes = {"nodes": 100_000, "edges": 2_000_000, "seeds": 0, "dim": 128, "heads": 4}
    options = common.parse_options(__doc__, repeats=5, power_law=False, **sizes)
    common.report("layers", [bench_layers(options)], options.results)
