"""Train a model to sort letters with the trainer of the library, and print its steps.

    python examples/train_sort.py

A second run resumes a stopped one.
"""

import argparse
from pathlib import Path

import torch

from graphut.experiments.tasks import Sort
from graphut.experiments.training import Trainer, TrainingConfig, evaluate
from graphut.models import UniversalTransformer, UniversalTransformerConfig


def main(task: Sort, training: TrainingConfig, folder: str) -> UniversalTransformer:
    torch.manual_seed(training.seed)
    letters = task.source_vocabulary
    config = UniversalTransformerConfig(
        source_vocab=len(letters), target_vocab=len(letters), d_model=64, d_hidden=256, max_steps=6
    )
    trainer = Trainer(UniversalTransformer(config), task, training, folder)
    if Path(folder, "checkpoint.safetensors").exists():
        trainer.resume()
    trainer.fit()

    model = UniversalTransformer.from_pretrained(folder)  # the best epoch on the validation set
    print("test:", evaluate(model, task, task.test))

    [result] = model.generate([letters.encode("quickly")], max_length=20)
    print("quickly ->", "".join(letters.decode(result.tokens)), "in steps", result.steps)
    return model


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    help = "where to keep the run (default: runs/sort-example)"
    parser.add_argument("folder", nargs="?", default="runs/sort-example", help=help)
    parser.add_argument("--epochs", type=int, default=10, help="at most (default: 10)")
    options = parser.parse_args()
    try:
        main(Sort(), TrainingConfig(epochs=options.epochs, learning_rate=3e-3), options.folder)
    except ValueError as error:  # wrong options, or another model in the folder
        parser.error(str(error))
