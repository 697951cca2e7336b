"""Classify 8x8 digits with attention between neighbouring pixels and without convolutions.

As in "Stand-Alone Self-Attention in Vision Models" (arXiv 1906.05909), each pixel attends to the
patch around it. One step is repeated, so the receptive field grows by one patch per step, and each
pixel has its own number of steps. The digits come with scikit-learn (`pip install scikit-learn`). A
fifth of them is the test set; noise is added to the training images.

    python examples/image_local_attention.py
"""

import argparse

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from graphut.nn import (
    AdaptiveRecurrence,
    HaltingUnit,
    MultiHeadAttention,
    PositionwiseTransition,
    UniversalTransformerStep,
    coordinate_signal,
)
from graphut.topology import Patch

SIDE = 8


class PixelAttention(nn.Module):
    """Encode brightness and coordinates of each pixel, and classify the states of all pixels."""

    def __init__(self, hidden: int, radius: int, max_steps: int) -> None:
        super().__init__()
        self.topology = Patch(width=SIDE, radius=radius)
        self.embed = nn.Linear(1, hidden)
        self.place = nn.Linear(2 * hidden, hidden)
        step = UniversalTransformerStep(
            MultiHeadAttention(hidden, num_heads=4),
            PositionwiseTransition(hidden, 2 * hidden),
            norm="pre",
            dropout=0.1,
        )
        self.recurrence = AdaptiveRecurrence(
            step, HaltingUnit(hidden), max_steps=max_steps, halted="frozen"
        )
        self.classify = nn.Sequential(nn.Dropout(0.5), nn.Linear(SIDE * SIDE * hidden, 10))
        row, column = torch.arange(SIDE * SIDE) // SIDE, torch.arange(SIDE * SIDE) % SIDE
        signals = [coordinate_signal(x, hidden) for x in (row, column)]
        self.register_buffer("coordinates", torch.cat(signals, 1))

    def forward(self, images: Tensor):  # (images, 64) -> (images, 10), and the ponder record
        layout = self.topology.layout([SIDE * SIDE] * len(images))
        state = self.embed(images[..., None]) + self.place(self.coordinates)
        out, ponder = self.recurrence(layout, state.flatten(0, 1))
        return self.classify(out.view(len(images), -1)), ponder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=30, help="default: 30")
    parser.add_argument(
        "--images", type=int, default=1797, help="digits to use (default: all 1797)"
    )
    parser.add_argument("--radius", type=int, default=2, help="radius of the patch (default: 2)")
    parser.add_argument("--max-steps", type=int, default=4, help="default: 4")
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    options = parser.parse_args()
    if options.images < 5:
        parser.error(
            f"--images must be at least 5, so that one is left for the test; got {options.images}"
        )
    if options.epochs < 1:
        parser.error(f"--epochs must be at least 1, got {options.epochs}")
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        parser.error("the digits come with scikit-learn: pip install scikit-learn")

    torch.manual_seed(options.seed)
    digits = load_digits()
    order = torch.randperm(len(digits.target))[: options.images]
    images = torch.tensor(digits.data, dtype=torch.float32)[order] / 8 - 1  # from -1 to 1
    labels = torch.tensor(digits.target)[order]
    held_out = len(order) // 5

    model = PixelAttention(hidden=32, radius=options.radius, max_steps=options.max_steps)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    batches = -(-(len(order) - held_out) // 32)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, options.epochs * batches)
    for epoch in range(1, options.epochs + 1):
        model.train()
        for batch in (torch.randperm(len(order) - held_out) + held_out).split(32):
            logits, ponder = model(images[batch] + 0.2 * torch.randn(len(batch), SIDE * SIDE))
            loss = cross_entropy(logits, labels[batch]) + 0.003 * ponder.cost
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        print(f"epoch {epoch}: loss {loss:.3f}, {ponder.mean_steps:.2f} steps a pixel", flush=True)

    model.eval()
    with torch.no_grad():
        logits, ponder = model(images[:held_out])
    accuracy = (logits.argmax(1) == labels[:held_out]).double().mean()
    print(
        f"test accuracy {accuracy:.2%} on {held_out} digits, {ponder.mean_steps:.2f} steps a pixel"
    )
    print("mean steps of each pixel:")
    for row in ponder.steps.view(-1, SIDE, SIDE).double().mean(0).tolist():
        print("  ", " ".join(f"{steps:.1f}" for steps in row))


if __name__ == "__main__":
    main()
