"""Train a language model with the Trainer of Hugging Face transformers, and continue a text.

    pip install transformers accelerate
    python examples/hugging_face_trainer.py

A second run resumes from the last checkpoint in the folder.
"""

import argparse
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from graphut import UniversalTransformerLM, UniversalTransformerLMConfig

Texts = list[list[int]]


class ModelWithLoss(nn.Module):
    """The interface that Trainer expects; the wrapped model's `config` stays out of its reach."""

    def __init__(self, model: UniversalTransformerLM) -> None:
        super().__init__()
        self.model = model

    def forward(self, texts: Texts, return_loss: bool = True) -> dict[str, Tensor]:
        # Trainer computes an evaluation loss if there is an argument `return_loss`.
        output = self.model(texts)
        return {"loss": cross_entropy(output.logits, output.labels) + 0.001 * output.ponder.cost}

    def state_dict(self, *args: Any, **options: Any) -> dict[str, Tensor]:
        # safetensors refuses tensors that share memory, as the tied embedding and output do.
        weights = super().state_dict(*args, **options)
        return {name: weight.clone() for name, weight in weights.items()}


def collate(texts: Texts) -> dict[str, Texts]:
    return {"texts": texts}  # the model takes lists: there is nothing to pad


def draw_texts(number: int, seed: int) -> Texts:
    """Draw texts that count in steps of one or two, modulo 10; token 3 is the digit 0."""
    random = torch.Generator().manual_seed(seed)
    draws = torch.randint(10, (number, 2), generator=random).tolist()
    return [[3 + (start + (1 + n % 2) * i) % 10 for i in range(6 + n % 4)] for start, n in draws]


def main(folder: str, epochs: int, number: int = 2000) -> UniversalTransformerLM:
    from transformers import Trainer, TrainingArguments

    torch.manual_seed(0)
    config = UniversalTransformerLMConfig(
        vocab_size=13, d_model=32, d_hidden=64, num_heads=2, max_steps=4
    )
    model = UniversalTransformerLM(config)
    arguments = TrainingArguments(
        folder,
        num_train_epochs=epochs,
        per_device_train_batch_size=64,
        learning_rate=3e-3,
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        remove_unused_columns=False,  # with a data set of columns, `collate` chooses them
        dataloader_pin_memory=torch.cuda.is_available(),
        report_to="none",
    )
    trainer = Trainer(
        ModelWithLoss(model),
        arguments,
        data_collator=collate,
        train_dataset=draw_texts(number, seed=0),
        eval_dataset=draw_texts(100, seed=1),
    )
    trainer.train(resume_from_checkpoint=any(Path(folder).glob("checkpoint-*")))
    model.save_pretrained(folder)  # graphut.load(folder) loads it
    print(f"validation loss {trainer.evaluate()['eval_loss']:.3f}")
    [result] = model.generate([[3, 5, 7]], max_length=4)
    print("0 2 4 ->", *(token - 3 for token in result.tokens))
    return model


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    help = "where to keep checkpoints and the model (default: runs/trainer)"
    parser.add_argument("folder", nargs="?", default="runs/trainer", help=help)
    parser.add_argument("--epochs", type=int, default=10, help="(default: 10)")
    options = parser.parse_args()
    try:
        main(options.folder, options.epochs)
    except ImportError as error:
        parser.error(f"{error}: pip install transformers accelerate")
