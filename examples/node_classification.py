"""Classify the nodes of real graphs: `AdaptiveConv` against stacks of PyG's layers, in equal time.

Each model trains for the same number of CPU seconds, or of epochs. The checkpoint with the best
validation score is tested. The score is ROC AUC for two classes, and accuracy for more.

    python examples/node_classification.py minesweeper.npz --models adaptive sage-5
    python examples/node_classification.py cora.npz --models adaptive appnp gcn2 --seeds 10

A data set is a file of numpy arrays, or a folder of such files. One of three forms is recognised:

- `node_features`, `node_labels`, `edges` (each undirected edge once), and `train_masks`,
  `val_masks` and `test_masks`, one row for each split (Platonov et al., arXiv 2302.11640);
- `src`, `dst`, `feat_indptr`, `feat_indices`, `num_feats` (binary features of each node in CSR
  format), `label`, and the nodes `train`, `val`, `test`;
- `edges`, `node_labels`, `feature_indptr`, `feature_indices`, `feature_values`, `num_features`: the
  largest component, with splits made by a seed as in arXiv 1810.05997.

`.docs/from_gatconv.md` says where the files come from.
"""

import argparse
import copy
import csv
import math
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric import nn as pyg

from graphut._dgl import dgl
from graphut.nn import ACT, AdaptiveConv, AdaptivePropagation, FixedDepth


class Graph(NamedTuple):
    x: Tensor  # (nodes, features)
    edges: Tensor  # (2, E), both directions
    label: Tensor  # (nodes,)
    parts: dict[str, Tensor]  # the nodes of "train", "val" and "test"

    @property
    def is_binary(self) -> bool:
        return int(self.label.max()) == 1


def load(path: Path, split: int) -> Graph:
    """Read a data set in one of the three forms above."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: torch.as_tensor(array) for name, array in dict(file).items()}
    if "train_masks" in arrays:
        names = {part: f"{part}_masks" for part in ("train", "val", "test")}
        parts = {part: arrays[name][split].nonzero()[:, 0] for part, name in names.items()}
        edges = undirected(arrays["edges"].long().T)
        return Graph(arrays["node_features"].float(), edges, arrays["node_labels"].long(), parts)
    if "feat_indptr" in arrays:
        ones = torch.ones(len(arrays["feat_indices"]))
        sizes = int(arrays["num_feats"])
        x = from_csr(arrays["feat_indptr"], arrays["feat_indices"], ones, sizes)
        edges = torch.stack([arrays["src"], arrays["dst"]]).long()
        parts = {part: arrays[part].long() for part in ("train", "val", "test")}
        return Graph(F.normalize(x, p=1), edges, arrays["label"].long(), parts)
    names = ("feature_indptr", "feature_indices", "feature_values")
    x = from_csr(*(arrays[name] for name in names), int(arrays["num_features"]))
    edges, label = undirected(arrays["edges"].long().T), arrays["node_labels"].long()
    x, edges, label = largest_component(F.normalize(x, p=1), edges, label)
    return Graph(x, edges, label, random_split(label, split))


def from_csr(indptr: Tensor, indices: Tensor, values: Tensor, size: int) -> Tensor:
    rows = torch.repeat_interleave(indptr.diff().long())
    return torch.zeros(len(indptr) - 1, size).index_put((rows, indices.long()), values.float())


def undirected(edges: Tensor) -> Tensor:
    edges = torch.cat([edges, edges.flip(0)], 1)
    return edges[:, edges[0] != edges[1]].unique(dim=1)


def largest_component(x: Tensor, edges: Tensor, label: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    name = torch.arange(len(x))
    while True:  # each node takes the smallest name among its neighbours'
        smaller = name.scatter_reduce(0, edges[1], name[edges[0]], "amin")
        if torch.equal(smaller, name):
            break
        name = smaller
    kept = (name == name.mode().values).nonzero()[:, 0]
    place = torch.full_like(name, -1).index_copy(0, kept, torch.arange(len(kept)))
    edges = place[edges]
    return x[kept], edges[:, edges[0] >= 0], label[kept]


def random_split(label: Tensor, seed: int) -> dict[str, Tensor]:
    """Draw 20 training nodes of each class, 500 validation nodes, and the others for the test."""
    order = torch.randperm(len(label), generator=torch.Generator().manual_seed(seed))
    by_class = [order[label[order] == kind][:20] for kind in range(int(label.max()) + 1)]
    train = torch.cat(by_class)
    rest = order[~torch.isin(order, train)]
    return {"train": train, "val": rest[:500], "test": rest[500:]}


# Models. Each returns logits, and keeps the record of steps of its adaptive layer in `ponder`.


class Stack(nn.Module):
    """Layers of PyG with normalisation and a linear residual, as in arXiv 2406.08993."""

    ponder = None

    def __init__(self, kind: str, layers: int, feats: int, classes: int, o: argparse.Namespace):
        super().__init__()
        d, self.drop, self.input_drop = o.width, o.dropout, o.input_dropout
        make = {
            "sage": lambda: pyg.SAGEConv(d, d),
            "gcn": lambda: pyg.GCNConv(d, d, cached=True),
            "gat": lambda: pyg.GATConv(d, d // o.heads, o.heads),
        }[kind]
        self.first, self.last = nn.Linear(feats, d), nn.Linear(d, classes)
        self.convs = nn.ModuleList(make() for _ in range(layers))
        self.residuals = nn.ModuleList(nn.Linear(d, d) for _ in range(layers))
        self.norms = nn.ModuleList(nn.BatchNorm1d(d) for _ in range(layers))

    def forward(self, x, edges):
        x = self.first(F.dropout(x, self.input_drop, self.training)).relu()
        x = F.dropout(x, self.drop, self.training)
        for conv, residual, norm in zip(self.convs, self.residuals, self.norms, strict=True):
            x = F.dropout(norm(conv(x, edges) + residual(x)).relu(), self.drop, self.training)
        return self.last(x)


class TwoLayers(nn.Module):
    """GCN (arXiv 1609.02907) or GAT (arXiv 1710.10903) with the settings of the papers."""

    ponder = None

    def __init__(self, kind: str, feats: int, classes: int):
        super().__init__()
        self.drop, self.is_gat = 0.6 if kind == "gat" else 0.5, kind == "gat"
        if self.is_gat:
            self.first = pyg.GATConv(feats, 8, 8, dropout=0.6)
            self.second = pyg.GATConv(64, classes, 1, dropout=0.6)
        else:
            self.first = pyg.GCNConv(feats, 16, cached=True)
            self.second = pyg.GCNConv(16, classes, cached=True)

    def forward(self, x, edges):
        x = self.first(F.dropout(x, self.drop, self.training), edges)
        x = F.elu(x) if self.is_gat else x.relu()
        return self.second(F.dropout(x, self.drop, self.training), edges)


class Propagated(nn.Module):
    """A multilayer perceptron, then propagation without weights: PyG's `APPNP`, or ours."""

    def __init__(self, propagate: nn.Module, feats: int, classes: int, o: argparse.Namespace):
        super().__init__()
        self.first, self.second = nn.Linear(feats, o.width), nn.Linear(o.width, classes)
        self.propagate, self.drop, self.words = propagate, o.dropout, None

    @property
    def ponder(self):
        return getattr(self.propagate, "ponder", None)

    def forward(self, x, edges):
        x = self.of_words(x).relu()
        x = self.second(F.dropout(x, self.drop, self.training))
        return self.propagate(x, edges)

    def of_words(self, x):
        """Return `first` of features of which some are dropped; few of them are not 0."""
        if self.words is None:
            warnings.filterwarnings("ignore", "Sparse CSR")  # torch says that it is in beta
            self.words = x.to_sparse_csr()
        words = self.words
        kept = F.dropout(words.values(), self.drop, self.training)
        parts = words.crow_indices(), words.col_indices(), kept
        x = torch.sparse_csr_tensor(*parts, words.shape, check_invariants=False)
        return x @ self.first.weight.T + self.first.bias


class Adaptive(nn.Module):
    """One `AdaptiveConv`, with some kind of step, and a linear classifier."""

    def __init__(self, step: dict, feats: int, classes: int, o: argparse.Namespace):
        super().__init__()
        rates = {"dropout": o.dropout, "input_dropout": o.input_dropout}
        more = {"max_steps": o.max_steps, "halting_bias": o.halting_bias}
        more["norm"] = None if o.norm == "none" else o.norm
        more["evaluation_halted"] = o.evaluation_halted
        self.conv = AdaptiveConv(feats, o.width, **step, **rates, **more)
        self.classify = nn.Linear(o.width, classes)

    @property
    def ponder(self):
        return self.conv.ponder

    def forward(self, x, edges):
        return self.classify(self.conv(x, edges))


def make_model(name: str, feats: int, classes: int, o: argparse.Namespace) -> nn.Module:
    d = o.width
    if name == "adaptive":
        return Adaptive({}, feats, classes, o)
    if name == "adaptive-fixed":
        return Adaptive({"rule": FixedDepth()}, feats, classes, o)
    if name == "adaptive-attention":
        return Adaptive({"heads": o.heads}, feats, classes, o)
    if name == "adaptive-gcn":
        return Adaptive({"conv": pyg.GCNConv(d, d)}, feats, classes, o)
    if name == "adaptive-free":
        conv = dgl.nn.GraphConv(d, d, weight=False, bias=False)
        step = {"conv": conv, "add_self_loops": True, "residual": False, "rule": FixedDepth()}
        return Adaptive(step, feats, classes, o)
    if name == "propagation":
        return Propagated(AdaptivePropagation(10, 0.1), feats, classes, o)
    if name in ("ap-gcn", "propagation-act"):
        rule = ACT(halt_from="output", weighting="ap-gcn" if name == "ap-gcn" else "sum")
        alpha, more = 0.0 if name == "ap-gcn" else 0.1, {"in_channels": classes, "rule": rule}
        propagate = AdaptivePropagation(10, alpha, halted="running", dropout=0.5, **more)
        return Propagated(propagate, feats, classes, o)
    if name == "appnp":
        return Propagated(pyg.APPNP(10, 0.1), feats, classes, o)
    if name in ("gcn2", "gat2"):
        return TwoLayers(name[:3], feats, classes)
    kind, _, layers = name.partition("-")
    return Stack(kind, int(layers), feats, classes, o)


MODELS = (
    *("adaptive", "adaptive-fixed", "adaptive-attention", "adaptive-gcn", "adaptive-free"),
    *("propagation", "propagation-act", "ap-gcn", "appnp", "gcn2", "gat2"),
    *(f"{kind}-{layers}" for kind in ("sage", "gcn", "gat") for layers in (5, 10, 15)),
)


def new_board(side: int, seed: int) -> Graph:
    """Draw a board by the rules of Minesweeper in arXiv 2302.11640; all cells are test nodes.

    A fifth of the cells are mines, and half of them do not show how many of their eight neighbours
    are. Counts of five and more are one feature.
    """
    random = torch.Generator().manual_seed(seed)
    cell = torch.arange(side * side).view(side, side)
    pairs = [(cell[:, :-1], cell[:, 1:]), (cell[:-1], cell[1:])]
    pairs += [(cell[:-1, :-1], cell[1:, 1:]), (cell[1:, :-1], cell[:-1, 1:])]
    edges = undirected(torch.cat([torch.stack([a.flatten(), b.flatten()]) for a, b in pairs], 1))
    mine = (torch.randperm(side * side, generator=random) < side * side // 5).long()
    count = torch.zeros_like(mine).index_add(0, edges[1], mine[edges[0]])
    hidden = torch.randperm(side * side, generator=random) < side * side // 2
    x = F.one_hot(torch.where(hidden, 0, 1 + count.clamp(max=5)), 7).float()
    return Graph(x, edges, mine, {"val": cell.flatten(), "test": cell.flatten()})


# Training.


def auc(score: Tensor, label: Tensor) -> float:
    """Return the area under the ROC curve; equal scores share a rank."""
    _, place, count = score.double().unique(return_inverse=True, return_counts=True)
    rank = (count.cumsum(0) - (count - 1) / 2)[place]
    positive = label == 1
    p, q = int(positive.sum()), int((~positive).sum())
    return float((rank[positive].sum() - p * (p + 1) / 2) / (p * q))


def score(logits: Tensor, graph: Graph, part: str) -> float:
    nodes = graph.parts[part]
    if graph.is_binary:
        return auc(logits[nodes, 0], graph.label[nodes])
    return float((logits[nodes].argmax(1) == graph.label[nodes]).double().mean())


def loss_of(logits: Tensor, graph: Graph) -> Tensor:
    nodes = graph.parts["train"]
    if graph.is_binary:
        return F.binary_cross_entropy_with_logits(logits[nodes, 0], graph.label[nodes].float())
    return F.cross_entropy(logits[nodes], graph.label[nodes])


def flops_of(model: nn.Module, graph: Graph, o: argparse.Namespace) -> float:
    """Count the operations of a forward pass: two for each weight and message."""
    if model.ponder is not None:
        return float(model.ponder.flops)
    layers = [part for part in model.modules() if isinstance(part, pyg.MessagePassing)]
    by_node = sum(2 * w.numel() for part in layers for w in part.parameters() if w.dim() > 1)
    by_edge = sum(2 * getattr(part, "out_channels", 0) for part in layers)
    return len(graph.x) * by_node + graph.edges.shape[1] * by_edge


def decayed(model: nn.Module, weight_decay: float) -> list[dict]:
    """Return the weights for an optimizer: of our models, only the map of the features decays."""
    first = model
    if isinstance(model, Propagated | Adaptive):
        first = model.first if isinstance(model, Propagated) else model.conv.input_map
    decaying = {*first.parameters()}
    rest = [weight for weight in model.parameters() if weight not in decaying]
    return [
        {"params": [*first.parameters()], "weight_decay": weight_decay},
        {"params": rest, "weight_decay": 0.0},
    ]


@torch.no_grad()
def evaluate(model: nn.Module, graph: Graph, o: argparse.Namespace) -> dict[str, float]:
    """Return the scores of a model on the validation and the test nodes, and its cost."""
    model.eval()
    before = time.process_time()
    logits = model(graph.x, graph.edges)
    row = {"forward_s": time.process_time() - before}
    row |= {part: score(logits, graph, part) for part in ("val", "test")}
    row["steps"] = math.nan if model.ponder is None else float(model.ponder.mean_steps)
    return row | {"gflop": flops_of(model, graph, o) / 1e9}


def train(
    name: str, graph: Graph, seed: int, o: argparse.Namespace
) -> tuple[dict[str, float | str], nn.Module]:
    """Train one model within the budget; return its row of the table, and the best model."""
    torch.manual_seed(seed)
    classes = 1 if graph.is_binary else int(graph.label.max()) + 1
    model = make_model(name, graph.x.shape[1], classes, o)
    optimizer = torch.optim.Adam(decayed(model, o.weight_decay), lr=o.lr)
    start, spent, epoch, evaluated = time.process_time(), 0.0, 0, -1.0
    best, weights = {"val": -1.0}, {}
    while spent < 1.0:
        rate = o.lr * min(1.0, (spent + 0.002) / 0.05) * (0.51 + 0.49 * math.cos(math.pi * spent))
        for group in optimizer.param_groups:
            group["lr"] = rate
        model.train()
        loss = loss_of(model(graph.x, graph.edges), graph)
        if model.ponder is not None:
            loss = loss + o.ponder_weight * model.ponder.cost
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        epoch += 1
        spent = max((time.process_time() - start) / o.seconds, epoch / o.epochs)
        if spent < evaluated + 1 / o.evaluations and spent < 1.0:
            continue
        evaluated = spent
        if (row := evaluate(model, graph, o))["val"] > best["val"]:
            best, weights = row, copy.deepcopy(model.state_dict())
    cpu = time.process_time() - start
    model.load_state_dict(weights)
    size = sum(weight.numel() for weight in model.parameters())
    return {"model": name, **best, "weights": size, "epochs": epoch, "cpu_s": cpu}, model


COLUMNS = (
    "data",
    "split",
    "seed",
    "model",
    "val",
    "test",
    "steps",
    "weights",
    "gflop",
    "forward_s",
)
COLUMNS += ("epochs", "cpu_s")


def draw_steps(steps: Tensor, path: Path) -> None:
    """Draw the steps of nodes that are the cells of a square, as in Minesweeper, as an image."""
    from matplotlib import pyplot

    side = math.isqrt(len(steps))
    figure, axes = pyplot.subplots(figsize=(4.2, 3.6), layout="constrained")
    image = axes.imshow(steps.view(side, side).numpy(), cmap="Blues", interpolation="nearest")
    axes.set_axis_off()
    figure.colorbar(image, label="steps of the cell")
    figure.savefig(path, dpi=100)


def time_evaluation(model: Adaptive, graph: Graph, o: argparse.Namespace) -> None:
    """Print the CPU seconds of a forward pass with frozen and with running nodes, in turns."""
    seconds = {"frozen": [], "running": []}
    for halted in [*seconds] * 15:
        model.conv.recurrence.evaluation_halted = halted
        seconds[halted].append(evaluate(model, graph, o)["forward_s"])
    print(", ".join(f"{halted}: {np.median(x):.3g} s" for halted, x in seconds.items()))


def write_row(row: dict, path: Path | None) -> None:
    values = [
        f"{row[key]:.4g}" if isinstance(row[key], float) else str(row[key]) for key in COLUMNS
    ]
    print("  ".join(f"{value:>11}" for value in values), flush=True)
    if path is not None:
        is_new = not path.exists()
        with path.open("a", newline="") as file:
            csv.writer(file).writerows([COLUMNS, values] if is_new else [values])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path, nargs="+", help="files of numpy arrays, or folders")
    parser.add_argument("--models", nargs="+", default=["adaptive", "sage-5"], choices=MODELS)
    parser.add_argument("--splits", type=int, nargs="+", default=[0])
    parser.add_argument("--seeds", type=int, default=1, help="runs of each split (default: 1)")
    parser.add_argument("--seconds", type=float, default=60.0, help="CPU time of a run (60)")
    parser.add_argument("--epochs", type=int, default=10**9, help="the most epochs of a run")
    parser.add_argument("--evaluations", type=int, default=33, help="on validation nodes (33)")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--max-steps", type=int, default=10)
    parser.add_argument("--norm", choices=["batch", "layer", "none"], default="batch")
    parser.add_argument(
        "--evaluation-halted", choices=["frozen", "running"], default="running", help="of adaptive"
    )
    parser.add_argument("--dropout", type=float, default=0.2)
    parser.add_argument("--input-dropout", type=float, default=0.0)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--weight-decay", type=float, default=0.0)
    parser.add_argument("--ponder-weight", type=float, default=0.003)
    parser.add_argument("--halting-bias", type=float, default=-2.0)
    help_boards = "test on new Minesweeper boards of these sizes, such as 100 300"
    parser.add_argument("--boards", type=int, nargs="+", default=[], help=help_boards)
    help_time = "time evaluation with frozen and with running nodes in turns, for an adaptive model"
    parser.add_argument("--time", action="store_true", help=help_time)
    parser.add_argument("--draw", type=Path, metavar="FILE", help="draw the steps of square boards")
    parser.add_argument("--out", type=Path, metavar="FILE", help="add the rows to a CSV file")
    o = parser.parse_args()
    files = [
        p for path in o.data for p in (sorted(path.glob("*.npz")) if path.is_dir() else [path])
    ]
    print("  ".join(f"{name:>11}" for name in COLUMNS))
    for path in files:
        for split in o.splits:
            try:
                graph = load(path, split)
            except (OSError, KeyError, IndexError, ValueError) as error:
                parser.error(f"cannot read split {split} of {path}: {error!r}")
            if o.draw is not None and math.isqrt(len(graph.x)) ** 2 != len(graph.x):
                parser.error(f"--draw needs the cells of a square, got {len(graph.x)} nodes")
            if o.boards and graph.x.shape[1] != 7:
                parser.error(f"--boards needs the 7 features of cells, got {graph.x.shape[1]}")
            for name in o.models:
                for seed in range(o.seeds):
                    row, model = train(name, graph, seed, o)
                    row |= {"split": split, "seed": seed}
                    write_row({"data": path.stem, **row}, o.out)
                    for side in o.boards:
                        of_board = evaluate(model, new_board(side, seed), o)
                        write_row({"data": f"board-{side}", **row, **of_board}, o.out)
                    if o.time and isinstance(model, Adaptive):
                        time_evaluation(model, graph, o)
                    if o.draw is not None and model.ponder is not None:
                        evaluate(model, graph, o)
                        draw_steps(model.ponder.steps, o.draw)


if __name__ == "__main__":
    main()
