"""Train one `AdaptiveConv` on Cora in a loop of PyG, with several weights of the ponder cost.

With a larger weight, nodes halt earlier. For each weight the script prints the test accuracy at the
best epoch on the validation papers, and the mean number of steps of a paper. The docstring of
`node_classification_cora.py` describes the file.

    python examples/adaptive_conv.py --data cora.npz
"""

import argparse

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout

from graphut.nn import AdaptiveConv


def load(path: str) -> tuple[Tensor, Tensor, Tensor, dict[str, Tensor]]:
    """Return features, edges, labels, and the papers of each part."""
    arrays = {name: torch.tensor(array).long() for name, array in np.load(path).items()}
    counts = arrays["feat_indptr"].diff()
    x = torch.zeros(len(counts), int(arrays["num_feats"]))
    x[torch.repeat_interleave(counts), arrays["feat_indices"]] = 1
    edge_index = torch.stack([arrays["src"], arrays["dst"]])
    parts = {name: arrays[name] for name in ("train", "val", "test")}
    return x / x.sum(1, keepdim=True), edge_index, arrays["label"], parts


def train(path: str, ponder_weight: float, seed: int, epochs: int) -> tuple[float, float]:
    """Return test accuracy and mean steps at the best epoch on the validation papers."""
    torch.manual_seed(seed)
    x, edge_index, label, parts = load(path)
    conv = AdaptiveConv(x.shape[1], 32, heads=4, dropout=0.5)
    classify = nn.Linear(32, int(label.max()) + 1)
    parameters = [*conv.parameters(), *classify.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.01, weight_decay=5e-3)
    best, result = -1.0, (0.0, 0.0)
    for _ in range(epochs):
        conv.train()
        out = classify(dropout(conv(dropout(x), edge_index)))
        loss = cross_entropy(out[parts["train"]], label[parts["train"]])
        loss = loss + ponder_weight * conv.ponder.cost
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        conv.eval()
        with torch.no_grad():
            correct = (classify(conv(x, edge_index)).argmax(1) == label).double()
        if correct[parts["val"]].mean() >= best:
            best = float(correct[parts["val"]].mean())
            result = float(correct[parts["test"]].mean()), float(conv.ponder.mean_steps)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", metavar="FILE", required=True, help="cora.npz")
    parser.add_argument("--weights", type=float, nargs="+", default=[0.0, 0.01, 0.1])
    parser.add_argument("--seeds", type=int, default=3, help="runs for each weight (default: 3)")
    parser.add_argument("--epochs", type=int, default=60, help="default: 60")
    options = parser.parse_args()
    for weight in options.weights:
        runs = [train(options.data, weight, seed, options.epochs) for seed in range(options.seeds)]
        accuracy, steps = np.mean(runs, 0)
        print(f"weight {weight:g}: test accuracy {accuracy:.1%}, {steps:.2f} steps", flush=True)


if __name__ == "__main__":
    main()
