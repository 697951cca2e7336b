"""The benchmark of whole graph layers: graphut's beside DGL's and PyG's, on random graphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from graphut._dgl import DGLGraph, dgl
from graphut.attention import EdgeLayout
from graphut.experiments.bench.peak_memory import peak_bytes
from graphut.experiments.bench.report import Report
from graphut.experiments.bench.timing import interleaved
from graphut.experiments.bench.workloads import CPU
from graphut.experiments.machine import dated_machine
from graphut.nn import DotGATConv, MultiHeadAttention, from_edge_index

PEERS = ("dgl DotGatConv", "dgl GATConv", "pyg TransformerConv")
_TWINS = {"DotGATConv": PEERS[0], "TransformerConv": PEERS[2]}  # they have the same weights
_FANOUT = 10


@dataclass(frozen=True, kw_only=True)
class LayerProblem:
    """One layer over a random graph with self-loops, or two over sampled blocks of it.

    Examples
    --------
    >>> [block.num_dst_nodes() for block in LayerProblem(nodes=50, edges=200, seeds=4).blocks][-1]
    4
    """

    nodes: int
    edges: int  # without the self-loops
    power_law: bool = False  # whether few nodes have most edges
    seeds: int | None = None  # nodes of a mini-batch, with 10 sampled in-neighbours a layer
    dim: int = 128  # features in and out
    heads: int = 4

    def __post_init__(self) -> None:
        """Raise `ValueError` if there is no such graph, or no such layer."""
        if self.heads < 1 or self.dim < 1 or self.dim % self.heads:
            raise ValueError(f"{self.dim} features do not divide into {self.heads} heads")
        if self.edges < 0 or not 1 <= (1 if self.seeds is None else self.seeds) <= self.nodes:
            seeds = "" if self.seeds is None else f", {self.seeds} of them seeds,"
            raise ValueError(
                f"no graph has {self.nodes} nodes{seeds} and {self.edges} edges: give at least one "
                "node, and from one to all of them as seeds"
            )

    @cached_property
    def blocks(self) -> list[DGLGraph]:
        """The graph of each layer, the same at each call."""
        drawn = torch.rand(2, self.edges, generator=torch.Generator().manual_seed(0))
        if self.power_law:
            drawn = drawn ** torch.tensor([[3.0], [2.0]])
        src, dst = (self.nodes * drawn).long().clamp_max(self.nodes - 1)
        graph = dgl.add_self_loop(dgl.graph((src, dst), num_nodes=self.nodes))
        if self.seeds is None:
            return [graph]
        dgl.seed(0)
        sampler = dgl.dataloading.NeighborSampler([_FANOUT, _FANOUT])
        return sampler.sample_blocks(graph, torch.arange(self.seeds))[2]


@dataclass(frozen=True)
class _Pass:
    """Forward and backward of layers, one for each block; returns the output."""

    layers: list[nn.Module]
    call: Callable[[nn.Module, int, Tensor], Tensor]  # a layer, the number of its block, features
    feat: Tensor

    def __call__(self) -> Tensor:
        feat = self.feat.detach().requires_grad_()
        out = feat
        for number, layer in enumerate(self.layers):
            out = self.call(layer, number, out).flatten(1)
        torch.autograd.backward(out, torch.ones_like(out))
        return out.detach()


def bench_layers(problem: LayerProblem, *, repeats: int = 5) -> Report:
    """Time graph layers, forward and backward, and measure their memory.

    `DotGATConv` and `TransformerConv` have the weights of DGL's `DotGatConv` and of PyG's
    `TransformerConv`, and their outputs are compared. Layouts of sampled blocks are made anew in
    each run, as a training loop has to; that of a whole graph is kept.

    Examples
    --------
    >>> report = bench_layers(LayerProblem(nodes=20, edges=60, dim=8, heads=2), repeats=1)
    >>> [row["name"] for row in report["rows"]][:2]
    ['DotGATConv', 'DotGATConv, own maps']
    """
    runs = _passes(problem)
    errors = {name: _difference(runs[name](), runs[twin]()) for name, twin in _TWINS.items()}
    times = interleaved(runs, repeats, CPU)
    rows = [
        {
            "name": name,
            "error": errors.get(name),
            "seconds": times[name],
            "peak_bytes": peak_bytes(run, CPU),
            "times_faster_than": {
                peer: times[peer]["median"] / times[name]["median"] for peer in PEERS
            },
        }
        for name, run in runs.items()
    ]
    sizes = [(b.num_src_nodes(), b.num_dst_nodes(), b.num_edges()) for b in problem.blocks]
    return {
        "bench": "layers",
        "machine": dated_machine(CPU),
        "problem": {**asdict(problem), "blocks": sizes},
        "rows": rows,
    }


def _passes(problem: LayerProblem) -> dict[str, _Pass]:
    from graphut.nn.pyg_layers import TransformerConv  # PyG is an extra

    pygs: type[nn.Module] = TransformerConv.__base__

    dim, heads, blocks = problem.dim, problem.heads, problem.blocks
    edges = [torch.stack(block.edges()) for block in blocks]
    sizes = [(block.num_src_nodes(), block.num_dst_nodes()) for block in blocks]
    kept = [from_edge_index(*given) for given in zip(edges, sizes, strict=True)]

    def layout(number: int) -> EdgeLayout:
        return from_edge_index(edges[number], sizes[number]) if problem.seeds else kept[number]

    calls: dict[str, Callable[[Any, int, Tensor], Tensor]] = {
        "dgl": lambda layer, i, feat: layer(blocks[i], feat),
        "pyg": lambda layer, i, feat: layer((feat, feat[: sizes[i][1]]), edges[i]),
        "layout": lambda layer, i, feat: layer(layout(i), feat),
    }
    feats = dim // heads
    made: dict[str, tuple[str, Callable[[], nn.Module]]] = {
        "DotGATConv": ("layout", lambda: DotGATConv(dim, feats, heads, bias=False)),
        "DotGATConv, own maps": (
            "layout", lambda: DotGATConv(dim, feats, heads, share_projection=False)
        ),
        "MultiHeadAttention": ("layout", lambda: MultiHeadAttention(dim, heads)),
        "TransformerConv": ("pyg", lambda: TransformerConv(dim, feats, heads)),
        PEERS[0]: ("dgl", lambda: dgl.nn.DotGatConv(dim, feats, heads)),
        PEERS[1]: ("dgl", lambda: dgl.nn.GATConv(dim, feats, heads)),
        PEERS[2]: ("pyg", lambda: pygs(dim, feats, heads)),
    }  # fmt: skip
    torch.manual_seed(0)
    x = torch.randn(sizes[0][0], dim)
    passes = {
        name: _Pass([make() for _ in blocks], calls[style], x)
        for name, (style, make) in made.items()
    }
    for mine, twin in _TWINS.items():
        for layer, other in zip(passes[mine].layers, passes[twin].layers, strict=True):
            layer.load_state_dict(other.state_dict())
    return passes


def _difference(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())
