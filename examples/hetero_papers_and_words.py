"""Classify the papers of Cora on a graph of papers and words, where each node has its own depth.

Papers cite papers and contain words. A paper starts with a linear map of its words, and a word with
a learned vector. All papers except those for validation and test are labelled. For each weight of
the ponder cost, the script prints the test accuracy at the best epoch on the validation papers, and
the mean number of steps of papers and of words. `.docs/from_gatconv.md` says how to make the file.

    python examples/hetero_papers_and_words.py --data cora.npz --library pyg
"""

import argparse

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout

from graphut.nn import HeteroAdaptiveConv


def load(path: str) -> tuple[dict[tuple[str, str, str], Tensor], Tensor, dict[str, Tensor]]:
    """Return the edges of each type, the labels, and the papers of each part."""
    arrays = {name: torch.tensor(array).long() for name, array in np.load(path).items()}
    paper = torch.repeat_interleave(arrays["feat_indptr"].diff())
    contains = torch.stack([paper, arrays["feat_indices"]])
    cites = torch.stack([arrays["src"], arrays["dst"]])
    edges = {
        ("paper", "cites", "paper"): cites,
        ("paper", "contains", "word"): contains,
        ("word", "in", "paper"): contains.flip(0),
    }
    parts = {name: arrays[name] for name in ("val", "test")}
    others = torch.ones(len(arrays["label"]), dtype=torch.bool)
    others[torch.cat([*parts.values()])] = False
    return edges, arrays["label"], parts | {"train": others.nonzero()[:, 0]}


def make_graph(library: str, edges, x):  # the metadata, and what a layer is called with
    if library == "dgl":
        import dgl

        sizes = {kind: len(feat) for kind, feat in x.items()}
        graph = dgl.heterograph({kind: (*ends,) for kind, ends in edges.items()}, sizes)
        return (graph.ntypes, graph.canonical_etypes), lambda conv, x: conv(graph, x)

    from torch_geometric.data import HeteroData

    data = HeteroData()
    for kind, feat in x.items():
        data[kind].x = feat
    for kind, ends in edges.items():
        data[kind].edge_index = ends
    return data.metadata(), lambda conv, x: conv(x, data.edge_index_dict)


def train(options, ponder_weight: float, seed: int) -> tuple[float, float, float]:
    """Return test accuracy and mean steps at the best epoch on the validation papers."""
    torch.manual_seed(seed)
    edges, label, parts = load(options.data)
    paper, word = edges["paper", "contains", "word"]
    bags = torch.zeros(len(label), int(word.max()) + 1)
    bags[paper, word] = 1.0
    words = nn.Embedding(bags.shape[1], 32)
    x = {"paper": bags / bags.sum(1, keepdim=True), "word": words.weight}
    metadata, call = make_graph(options.library, edges, x)
    conv = HeteroAdaptiveConv(
        {"paper": bags.shape[1], "word": 32}, 32, metadata, max_steps=6, dropout=0.5
    )
    classify = nn.Linear(32, int(label.max()) + 1)
    layers = nn.ModuleList([words, conv, classify])
    optimizer = torch.optim.Adam(layers.parameters(), lr=0.01, weight_decay=5e-4)
    best, result = -1.0, (0.0, 0.0, 0.0)
    for _ in range(options.epochs):
        layers.train()
        out = call(conv, {kind: dropout(feat) for kind, feat in x.items()})["paper"]
        loss = cross_entropy(classify(dropout(out))[parts["train"]], label[parts["train"]])
        loss = loss + ponder_weight * conv.ponder.cost
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        layers.eval()
        with torch.no_grad():
            correct = (classify(call(conv, x)["paper"]).argmax(1) == label).double()
        if correct[parts["val"]].mean() >= best:
            best = float(correct[parts["val"]].mean())
            steps = [conv.ponder.steps[conv.nodes[kind]].double().mean() for kind in x]
            result = float(correct[parts["test"]].mean()), float(steps[0]), float(steps[1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", metavar="FILE", required=True, help="cora.npz")
    parser.add_argument("--library", choices=["dgl", "pyg"], default="pyg", help="default: pyg")
    parser.add_argument("--weights", type=float, nargs="+", default=[0.0, 0.003])
    parser.add_argument("--seeds", type=int, default=3, help="runs for each weight (default: 3)")
    parser.add_argument("--epochs", type=int, default=60, help="default: 60")
    options = parser.parse_args()
    for weight in options.weights:
        runs = [train(options, weight, seed) for seed in range(options.seeds)]
        accuracy, of_papers, of_words = np.mean(runs, 0)
        print(
            f"weight {weight:g}: test accuracy {accuracy:.1%}, {of_papers:.2f} steps for a paper "
            f"and {of_words:.2f} for a word",
            flush=True,
        )


if __name__ == "__main__":
    main()
