"""Define a custom topology, draw it, and train a model with it.

    python examples/custom_topology.py

The picture needs matplotlib: pip install matplotlib. A second run resumes a stopped one.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from graphut import UniversalTransformer, UniversalTransformerConfig
from graphut.experiments.tasks import Sort
from graphut.experiments.training import Trainer, TrainingConfig, evaluate
from graphut.plotting import draw_topology
from graphut.topology import Topology, statistics


@dataclass(frozen=True)
class Powers(Topology):
    """Attend to the tokens 1, 2, 4, 8, ... positions away and to itself: about 2 log2(n) edges."""

    name = "powers"  # in spec strings: "powers", "powers&causal", "powers|global:0"
    stable = True  # edges among the first tokens do not change when the sentence grows

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        jumps = [2**k for k in range(int(n_src.max()).bit_length())]
        source = dst[:, None] + torch.tensor([0, *jumps, *(-jump for jump in jumps)])
        row = torch.arange(len(dst))[:, None].expand_as(source)
        return row.flatten(), source.flatten()  # positions outside the sentence are dropped


def main(task: Sort, training: TrainingConfig, folder: str) -> UniversalTransformer:
    Path(folder).mkdir(parents=True, exist_ok=True)
    draw_topology(Powers(), 24).savefig(Path(folder, "powers.png"))
    numbers = statistics(Powers(), 24)
    print(f"{numbers.edges} edges among 24 tokens, diameter {numbers.diameter}")

    torch.manual_seed(training.seed)
    letters = len(task.source_vocabulary)
    config = UniversalTransformerConfig(
        source_vocab=letters,
        target_vocab=letters,
        d_model=64,
        d_hidden=128,
        max_steps=6,
        encoder_topology="powers",
        decoder_topology="powers&causal",
    )
    trainer = Trainer(UniversalTransformer(config), task, training, folder)
    if Path(folder, "checkpoint.safetensors").exists():
        trainer.resume()
    trainer.fit()

    model = UniversalTransformer.from_pretrained(folder)  # config.json names the topology
    print("test:", evaluate(model, task, task.test))
    return model


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    help = "where to keep the run (default: runs/powers)"
    parser.add_argument("folder", nargs="?", default="runs/powers", help=help)
    parser.add_argument("--epochs", type=int, default=10, help="at most (default: 10)")
    options = parser.parse_args()
    try:
        main(Sort(), TrainingConfig(epochs=options.epochs, learning_rate=3e-3), options.folder)
    except (
        ImportError,
        ValueError,
    ) as error:  # no matplotlib, wrong options, or another model in the folder
        parser.error(str(error))
