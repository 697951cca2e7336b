"""Train `graphut train graphs` on one's own graphs, and compare it with DGL's `GATConv`.

    python examples/own_graphs.py classes --data cora.npz
    python examples/own_graphs.py values

The first command predicts the classes of the papers of Cora (`.docs/from_gatconv.md` says how to
make the file; without `--data` DGL downloads the graph). The second predicts values on a
random graph: a value depends on the features of the node and, by the weights of the edges, on those
of its neighbours. Both write the graph as `.npy` files, train from the command line with several
seeds, and predict. The baselines are a GAT with the settings of arXiv 1710.10903, and least squares
on the features of a node and the weighted mean of its neighbours.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy, elu, mse_loss

from graphut.experiments.cli import main as graphut
from graphut.experiments.tasks import write_arrays

import dgl  # isort: skip  (after graphut, which makes DGL work with a current torch)

PARTS = ("train", "val", "test")
OPTIONS = {
    "classes": "--epochs 80 --patience 80 --d-model 64 --d-hidden 64 --num-heads 8 --max-steps 4 "
    "--position-signal none "
    "--optimizer adam --learning-rate 0.01 --warmup 0 --weight-decay 0.005 --ema 0.9 --dropout 0.5 "
    "--attention-dropout 0.5 --input-dropout 0.7 --ponder-weight 0.001 --ponder-warmup 0",
    "values": "--target values --choose-by r2 --epochs 300 --patience 300 --d-model 32 "
    "--d-hidden 64 --max-steps 3 --learning-rate 0.01 --weight-decay 0.01 --ponder-weight 0 "
    "--position-signal none",
}


def read_cora(path: str | None) -> dgl.DGLGraph:
    """Return the citation graph, with features, classes and masks as node data."""
    if path is None:
        graph = dgl.data.CoraGraphDataset(verbose=False)[0]
        return dgl.add_self_loop(dgl.remove_self_loop(graph))
    arrays = {name: torch.tensor(array).long() for name, array in np.load(path).items()}
    counts = arrays["feat_indptr"].diff()
    graph = dgl.graph((arrays["src"], arrays["dst"]), num_nodes=len(counts))
    feat = torch.zeros(len(counts), int(arrays["num_feats"]))
    feat[torch.repeat_interleave(counts), arrays["feat_indices"]] = 1
    graph.ndata.update(feat=feat / feat.sum(1, keepdim=True), label=arrays["label"])
    for part in PARTS:
        mask = torch.zeros(len(counts), dtype=torch.bool)
        mask[arrays[part]] = True
        graph.ndata[f"{part}_mask"] = mask
    return dgl.add_self_loop(graph)


def draw_values(nodes: int = 1000, degree: int = 6) -> dgl.DGLGraph:
    """Return a random graph with weights of edges, and a value for each node."""
    torch.manual_seed(0)
    graph = dgl.add_self_loop(dgl.remove_self_loop(dgl.rand_graph(nodes, nodes * degree)))
    weight = torch.rand(graph.num_edges()) * 2 + 0.1
    weight[graph.edges()[0] == graph.edges()[1]] = 1  # as graphut counts self-loops
    feat = torch.randn(nodes, 4)
    graph.edata["weight"], graph.ndata["feat"] = weight, feat
    near = neighbours(graph)
    value = 10 + feat[:, 0] + 3 * near[:, 1] + torch.tanh(near[:, 2]) + feat[:, 3] * near[:, 3]
    graph.ndata["label"] = value + 0.1 * torch.randn(nodes)
    part = torch.multinomial(torch.tensor([0.6, 0.2, 0.2]), nodes, replacement=True)
    for index, name in enumerate(PARTS):
        graph.ndata[f"{name}_mask"] = part == index
    return graph


def neighbours(graph: dgl.DGLGraph) -> torch.Tensor:
    """Return the mean features of the in-neighbours of each node, by the weights of the edges."""
    source, target = graph.edges()
    weight, nodes = graph.edata["weight"][:, None], graph.num_nodes()
    feats = torch.zeros(nodes, 4).index_add(0, target, weight * graph.ndata["feat"][source])
    return feats / torch.zeros(nodes, 1).index_add(0, target, weight)


class GAT(nn.Module):
    """Two layers of `GATConv`; `residual` layers and no dropout for values."""

    def __init__(self, feats: int, out: int, is_class: bool) -> None:
        super().__init__()
        options = {"feat_drop": 0.6, "attn_drop": 0.6} if is_class else {"residual": True}
        self.first = dgl.nn.GATConv(feats, 8, 8, activation=elu, **options)
        self.second = dgl.nn.GATConv(64, out, 1, **options)

    def forward(self, graph, feat, weight):
        hidden = self.first(graph, feat, edge_weight=weight).flatten(1)
        return self.second(graph, hidden, edge_weight=weight).mean(1)


def train_gat(graph: dgl.DGLGraph, is_class: bool, seed: int) -> float:
    """Return the test score of the epoch with the best score on the validation nodes."""
    torch.manual_seed(seed)
    data, weight = graph.ndata, graph.edata.get("weight")
    label = data["label"] if is_class else data["label"][:, None]
    mean, scale = (0, 1) if is_class else (label.mean(), label.std())
    model = GAT(data["feat"].shape[1], int(label.max()) + 1 if is_class else 1, is_class)
    options = {"lr": 5e-3, "weight_decay": 5e-4} if is_class else {"lr": 1e-2}
    optimizer, best = torch.optim.Adam(model.parameters(), **options), (-9.0, 0.0)
    for _ in range(200 if is_class else 400):
        model.train()
        out, mask = model(graph, data["feat"], weight), data["train_mask"]
        loss = cross_entropy if is_class else mse_loss
        optimizer.zero_grad()
        loss(out[mask], ((label - mean) / scale)[mask] if not is_class else label[mask]).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            out = model(graph, data["feat"], weight) * scale + mean
        best = max(best, tuple(score(out, label, data[f"{p}_mask"]) for p in ("val", "test")))
    return best[1]


def score(out: torch.Tensor, label: torch.Tensor, mask: torch.Tensor) -> float:
    """Return the accuracy of classes, or the R2 of values, on the nodes of a mask."""
    if label.dim() == 1:
        return (out[mask].argmax(1) == label[mask]).double().mean().item()
    left, total = (x[mask].square().sum() for x in (out - label, label - label[mask].mean()))
    return 1 - (left / total).item()


def least_squares(graph: dgl.DGLGraph) -> float:
    """Return the R2 of least squares on the features of a node and of its neighbours."""
    ones = torch.ones(graph.num_nodes(), 1)
    columns = torch.cat([graph.ndata["feat"], neighbours(graph), ones], 1)
    mask, label = graph.ndata["train_mask"], graph.ndata["label"][:, None]
    found = torch.linalg.lstsq(columns[mask], label[mask]).solution
    return score(columns @ found, label, graph.ndata["test_mask"])


def train(folder: Path, task: str, seed: int) -> float:
    """Train from the command line; return the accuracy or the R2 on the test nodes."""
    run = folder / f"run-{task}-{seed}"
    words = ["train", "graphs", "--data", str(folder / task), "--out", str(run)]
    if graphut([*words, "--seed", str(seed), *OPTIONS[task].split()]):
        raise SystemExit(2)
    found = json.loads((run / "evaluation-test.json").read_text())
    return found["accuracy" if task == "classes" else "r2"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("task", choices=OPTIONS, help="classes of Cora, or generated values")
    parser.add_argument("--data", metavar="FILE", help="cora.npz (default: DGL downloads it)")
    help = "a new folder for the data and the runs (default: runs/own-graphs)"
    parser.add_argument("--out", default="runs/own-graphs", metavar="FOLDER", help=help)
    parser.add_argument("--seeds", type=int, default=3, help="runs of each model (default: 3)")
    parser.add_argument("--options", default="", help="more options of graphut train graphs")
    options = parser.parse_args()
    if options.seeds < 1:
        parser.error(f"--seeds must be at least 1, got {options.seeds}")
    task, folder = options.task, Path(options.out)
    OPTIONS[task] += f" {options.options}"
    try:
        graph = read_cora(options.data) if task == "classes" else draw_values()
        write_arrays(graph, folder / task)
    except (OSError, RuntimeError, ValueError) as error:
        parser.error(str(error))
    seeds = range(options.seeds)
    found = {
        "GATConv": [train_gat(graph, task == "classes", seed) for seed in seeds],
        "graphut": [train(folder, task, seed) for seed in seeds],
    }
    if task == "values":
        found["least squares"] = [least_squares(graph)]
    out = str(folder / f"{task}.csv")
    graphut(["predict", str(folder / f"run-{task}-0"), "--data", str(folder / task), "--out", out])
    for name, scores in found.items():
        each = ", ".join(f"{x:.3f}" for x in scores)
        print(f"{name}: mean {np.mean(scores):.3f} ({each})")


if __name__ == "__main__":
    main()
