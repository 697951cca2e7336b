"""Train on sampled blocks of a graph that does not fit into memory, with one process or several.

Features and edges are memory-mapped files, so a batch reads only the rows that it samples. Each
node has a hidden class, most edges join nodes of the same class, and the features of a single node
are noisy. DGL's sampler draws neighbours of neighbours, and an adaptive recurrence takes all its
steps on the drawn edges. With several processes, DGL distributes the training nodes among them.

    python examples/sampled_blocks.py
    torchrun --nproc-per-node 2 examples/sampled_blocks.py

The files take 232 bytes per node: 116 GB with `--nodes 500000000`.
"""

import argparse
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from graphut.attention import EdgeLayout
from graphut.nn import (
    AdaptiveRecurrence,
    HaltingUnit,
    MultiHeadAttention,
    PositionwiseTransition,
    UniversalTransformerStep,
    from_edge_index,
)

import dgl  # isort: skip  (after graphut, which makes DGL work with a current torch)

CLASSES, FEATURES, DEGREE = 8, 16, 20
CHUNK = 100_000  # nodes generated at a time


class SampledNet(nn.Module):
    """Classify nodes with an adaptive recurrence on sampled edges."""

    def __init__(self, hidden: int = 32) -> None:
        super().__init__()
        self.embed = nn.Linear(FEATURES, hidden)
        step = UniversalTransformerStep(
            MultiHeadAttention(hidden, num_heads=4), PositionwiseTransition(hidden, 2 * hidden)
        )
        self.recurrence = AdaptiveRecurrence(
            step, HaltingUnit(hidden, bias_init=0.0), max_steps=3, step_signal=None
        )
        self.classify = nn.Linear(hidden, CLASSES)

    def forward(self, layout, feat):  # (sources, FEATURES) -> (destinations, CLASSES)
        out, ponder = self.recurrence(layout, self.embed(feat))
        return self.classify(out), ponder


def joined(blocks: list[dgl.DGLGraph]) -> EdgeLayout:
    """Return the edges of all blocks: the nodes of a block begin with the nodes of the next one."""
    ends = torch.cat([torch.stack(block.edges()) for block in blocks], 1)
    return from_edge_index(ends, (blocks[0].num_src_nodes(), blocks[0].num_dst_nodes()))


def class_of(nodes: Tensor) -> Tensor:
    """Return the hidden class of nodes, which is their label."""
    return nodes % CLASSES


def mapped(folder: Path, name: str, dtype: type, *shape: int) -> Tensor:
    """Return a memory-mapped tensor, and create its file if necessary."""
    path = folder / name
    mode = "r+" if path.exists() else "w+"
    return torch.from_numpy(np.memmap(path, dtype, mode, shape=shape))


def open_graph(folder: Path, nodes: int) -> tuple[dgl.DGLGraph, Tensor]:
    """Return the memory-mapped graph and features."""
    starts = mapped(folder, "starts", np.int64, nodes + 1)
    sources = mapped(folder, "sources", np.int64, nodes, DEGREE)
    feat = mapped(folder, "feat", np.float32, nodes, FEATURES)
    return dgl.graph(("csc", (starts, sources.view(-1), [])), num_nodes=nodes), feat


def make_files(folder: Path, nodes: int) -> None:
    """Write a random graph and its features in chunks of nodes."""
    starts = mapped(folder, "starts", np.int64, nodes + 1)
    sources = mapped(folder, "sources", np.int64, nodes, DEGREE)
    feat = mapped(folder, "feat", np.float32, nodes, FEATURES)
    means = torch.randn(CLASSES, FEATURES)
    for first in range(0, nodes, CHUNK):
        own = torch.arange(first, min(first + CHUNK, nodes))
        size = (len(own), DEGREE)
        same_class = torch.randint(nodes // CLASSES, size) * CLASSES + class_of(own)[:, None]
        sources[own] = torch.where(torch.rand(size) < 0.6, same_class, torch.randint(nodes, size))
        sources[own, 0] = own  # a self-loop
        feat[own] = 0.3 * means[class_of(own)] + torch.randn(len(own), FEATURES)
        starts[own + 1] = (own + 1) * DEGREE


def all_reduce_sum(value: Tensor) -> Tensor:
    if dist.is_initialized():
        dist.all_reduce(value)
    return value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", type=int, default=200_000, help="default: 200000")
    parser.add_argument("--seeds", type=int, default=20_000, help="nodes to train on, and to test")
    parser.add_argument("--epochs", type=int, default=3, help="default: 3")
    options = parser.parse_args()
    if options.nodes < CLASSES or options.seeds < 1:
        parser.error(f"--nodes must be at least {CLASSES}, one per class, and --seeds at least 1")

    torch.manual_seed(0)
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1  # set by torchrun
    if several:
        dist.init_process_group()
    with TemporaryDirectory() as own:
        folder = [own]
        if not several or dist.get_rank() == 0:
            make_files(Path(own), options.nodes)
        if several:
            dist.broadcast_object_list(folder)  # waits until the files exist
        train(*open_graph(Path(folder[0]), options.nodes), options)
        if several:
            dist.destroy_process_group()


def train(graph: dgl.DGLGraph, feat: Tensor, options: argparse.Namespace) -> None:
    several = dist.is_initialized()
    # All processes need the same seed nodes, but only one has generated the graph.
    generator = torch.Generator().manual_seed(0)
    chosen = torch.randint(options.nodes, (2 * options.seeds,), generator=generator).unique()
    sampler = dgl.dataloading.NeighborSampler([10, 10])
    batches, tests = (
        dgl.dataloading.DataLoader(
            graph, part, sampler, batch_size=500, shuffle=True, use_ddp=several
        )
        for part in (chosen[::2], chosen[1::2])
    )
    model: nn.Module = SampledNet()
    if several:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(options.epochs):
        model.train()
        for sources, seeds, blocks in batches:
            logits, ponder = model(joined(blocks), feat[sources])
            loss = cross_entropy(logits[: len(seeds)], class_of(seeds)) + 0.05 * ponder.cost
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        found = torch.zeros(3)
        with torch.no_grad():
            for sources, seeds, blocks in tests:
                logits, ponder = model(joined(blocks), feat[sources])
                answers, count = logits[: len(seeds)].argmax(1), len(seeds)
                correct = (answers == class_of(seeds)).sum()
                found += torch.tensor([count, correct, count * ponder.mean_steps])
        count, correct, steps = all_reduce_sum(found).tolist()
        if not several or dist.get_rank() == 0:
            print(
                f"epoch {epoch + 1}: test accuracy {correct / count:.1%}, {steps / count:.2f} steps"
            )


if __name__ == "__main__":
    main()
