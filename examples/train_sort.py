"""Learn to sort letters with the library's training loop, and see how long it ponders.

python examples/train_sort.py [FOLDER]
"""

from __future__ import annotations

import sys

import torch

from graphut.experiments.tasks import Sort
from graphut.experiments.training import Trainer, TrainingConfig, evaluate
from graphut.models import UniversalTransformer, UniversalTransformerConfig


def main(task: Sort, training: TrainingConfig, folder: str) -> UniversalTransformer:
    torch.manual_seed(training.seed)
    letters = task.source_vocabulary
    config = UniversalTransformerConfig(source_vocab=len(letters), target_vocab=len(letters))
    Trainer(UniversalTransformer(config), task, training, folder).fit()

    model = UniversalTransformer.from_pretrained(folder)  # the best on the validation set
    print("test:", evaluate(model, task, task.test))

    [result] = model.generate([letters.encode("quickly")], max_length=20)
    print("quickly ->", "".join(letters.decode(result.tokens)), "in steps", result.steps)
    return model


if __name__ == "__main__":
    main(Sort(), TrainingConfig(), *(sys.argv[1:] or ["runs/sort-example"]))
