"""Train a model to copy letters, with an explicit training loop.

python examples/train_copy.py
"""

import argparse

import torch
from torch.nn.functional import cross_entropy

from graphut.experiments.tasks import Copy
from graphut.experiments.training import evaluate
from graphut.models import UniversalTransformer, UniversalTransformerConfig


def main(task: Copy, epochs: int) -> UniversalTransformer:
    torch.manual_seed(0)
    letters = task.source_vocabulary
    config = UniversalTransformerConfig(
        source_vocab=len(letters), target_vocab=len(letters), d_model=64, d_hidden=128, max_steps=4
    )
    model = UniversalTransformer(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    for epoch in range(epochs):
        pairs = task.train(seed=0, epoch=epoch)
        for start in range(0, len(pairs), 64):
            sources, targets = zip(*pairs[start : start + 64], strict=True)
            graph = model.sentence_graph(sources, targets)  # one batched DGL graph
            output = model(graph)
            loss = cross_entropy(output.logits, graph.nodes["target"].data["label"])
            ponder = output.encoder.cost + output.decoder.cost  # mean of steps plus remainder
            optimizer.zero_grad()
            (loss + 0.001 * ponder).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        result = evaluate(model, task, task.validation)
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}; validation: {result}")

    result = evaluate(model, task, task.test)
    print(f"test: {result}")
    return model


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=10, help="default: 10")
    options = parser.parse_args()
    if options.epochs < 1:
        parser.error(f"--epochs must be at least 1, got {options.epochs}")
    main(Copy(), options.epochs)
