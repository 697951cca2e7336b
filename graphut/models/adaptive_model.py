"""The base class of all models: recurrence settings, token checks, saving and loading."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from graphut._files import reraise_for_file
from graphut.models.config import ModelConfig
from graphut.models.model_files import (
    CONFIG,
    load_weights,
    read_config,
    read_vocabularies,
    save_model,
)
from graphut.models.sentence_nodes import draw_positions
from graphut.nn import AdaptiveRecurrence, HaltingRule
from graphut.vocabulary import Vocabulary

if TYPE_CHECKING:
    from typing_extensions import Self


KINDS: dict[str, type[AdaptiveModel]] = {}


def _shared(name: str, doc: str) -> Any:
    """Return a property of models: the attribute `name` of their `AdaptiveRecurrence` layers."""

    def read(model: AdaptiveModel) -> Any:
        return getattr(model._recurrences[0], name)

    def write(model: AdaptiveModel, value: Any) -> None:
        if model.config.decodes and not getattr(value, "fits_decoders", True):
            raise ValueError(
                f"{value} cannot be used in a decoder, where tokens halt one by one and for good: "
                "choose another rule, such as ACT()"
            )
        for recurrence in model._recurrences:
            setattr(recurrence, name, value)

    return property(read, write, doc=doc)


class AdaptiveModel(nn.Module):
    """A base class of models with adaptive recurrences: steps repeated until each node halts.

    A subclass sets `config_class`, the class of its only argument `config`. Its `__init__` assigns
    the recurrences and all other layers to attributes, and calls `reset_parameters` at the end.

    `vocabularies` are for texts and names: "source" and "target" of sequence pairs, "text" of a
    language model, "node" and "answer" of graphs. They are saved with the model.
    """

    config_class: ClassVar[type[ModelConfig]]

    def __init_subclass__(cls) -> None:
        """Register the class under its name, so that `load` finds it."""
        super().__init_subclass__()
        if hasattr(cls, "config_class"):
            KINDS[cls.__name__] = cls

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        if not isinstance(config, self.config_class):
            raise TypeError(
                f"{type(self).__name__} takes a {self.config_class.__name__}, got a "
                f"{type(config).__name__}"
            )
        self.config = config
        self.vocabularies: dict[str, Vocabulary] = {}
        self.dropout = nn.Dropout(config.dropout)

    max_steps: int = _shared("max_steps", "The maximum number of steps; may be changed later.")
    rule: HaltingRule = _shared("rule", "The halting rule in training.")
    evaluation_rule: HaltingRule = _shared(
        "evaluation_rule", "The halting rule in evaluation; `None` derives it from `rule`."
    )

    @property
    def device(self) -> torch.device:
        """The device of the model's parameters."""
        return next(self.parameters()).device

    def reset_parameters(self) -> None:
        """Initialise all parameters again."""
        norms: Any = (layer for layer in self.children() if isinstance(layer, nn.LayerNorm))
        for part in (*self._recurrences, *norms):
            part.reset_parameters()
        for layer in self.children():
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)
        # Last, because a tied output weight must be initialised as an embedding.
        for layer in self.children():
            if isinstance(layer, nn.Embedding):
                nn.init.normal_(layer.weight, std=self.config.d_model**-0.5)

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Context manager that runs its block in evaluation mode, and then restores all modules."""
        before = [(module, module.training) for module in self.modules()]
        self.eval()
        try:
            yield
        finally:
            # `train` may do more than set a flag: LoRA layers, for example, unmerge their weights.
            for module, training in before:
                if module.training != training:
                    module.train(training)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the model into a folder, for `load` and the command line.

        The files are `config.json`, `vocabularies.json` and `model.safetensors`. Settings that were
        changed after the model was built are saved only if they are attributes of the model:
        `max_steps`, `rule` (without `adaptive` as `evaluation_rule`) and `evaluation_rule`. Raise
        `ValueError` if a weight is not finite, or if the configuration does not allow the rules.
        """
        save_model(folder, asdict(self._config_now()), self, self.vocabularies)

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Self:
        """Load a model of this class in evaluation mode, as `load`, but also an untrained run."""
        _, values = read_config(folder, cls.__name__)
        with reraise_for_file(Path(folder, CONFIG), ""):
            model = cls(cls.config_class(**values))
        load_weights(folder, model)
        model.vocabularies = read_vocabularies(folder)
        return model.eval()

    def _config_now(self) -> ModelConfig:
        """Return the configuration with the current rules and number of steps."""
        recurrence = self._recurrences[0]
        final = recurrence._evaluation_rule  # None if it is derived from `rule`
        now: dict[str, Any] = {"max_steps": recurrence.max_steps}
        if self.config.adaptive:
            now["rule"] = recurrence.rule.spec()
        elif recurrence._rule:  # set after the model was built with `FixedDepth`
            final = recurrence.evaluation_rule
        return replace(self.config, evaluation_rule=final.spec() if final else "", **now)

    @property
    def _recurrences(self) -> list[AdaptiveRecurrence]:
        return [part for part in self.children() if isinstance(part, AdaptiveRecurrence)]

    def _embed(self, embedding: nn.Embedding, token: Tensor) -> Tensor:
        """Return the initial states of tokens: their scaled embeddings, after dropout."""
        return self.dropout(self._look_up(embedding, token))

    def _look_up(self, embedding: nn.Embedding, token: Tensor) -> Tensor:
        """Return the embeddings of tokens, times the square root of `d_model`."""
        return embedding(token) * self.config.d_model**0.5

    def _check_tokens(self, token: Tensor, size: int, kind: str, reason: str | None = None) -> None:
        """Raise `ValueError` for a token that is not below `size`; the message calls it `kind`."""
        least = largest = 0
        if token.numel() and not torch.compiler.is_compiling():
            least, largest = torch.stack(token.aminmax()).tolist()
        if largest >= size or least < 0:
            outside = largest if largest >= size else least
            reason = reason or f"is outside the vocabulary of {size} tokens,"
            raise ValueError(f"{kind} {outside} {reason} 0 to {size - 1}")

    def _check_length(self, length: int, what: str) -> None:
        if length > self.config.max_length:
            raise ValueError(
                f"{what} has {length} tokens, but the model takes at most {self.config.max_length}"
                ": shorten it, or make the model with a larger max_length"
            )

    def _drawn_positions(self, lengths: Tensor) -> Tensor | None:
        """Return random positions (`draw_positions`) in training with `max_offset`, else None."""
        if not self.training or self.config.max_offset == 0:
            return None
        return draw_positions(lengths, self.config.max_offset, spread=self.config.spread_positions)
