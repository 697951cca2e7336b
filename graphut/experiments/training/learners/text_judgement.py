"""How good a language model is: how surprised it is by each token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from graphut.experiments.tasks import Text
from graphut.experiments.training.bar import judged
from graphut.experiments.training.learner import Evaluation
from graphut.models import UniversalTransformerLM
from graphut.models.outputs import LMOutput

_BINS = 10
# Of a batch: of the one, 128 MiB in float32.
_MOST_LOGITS, _MOST_TOKENS = 2**25, 2**14


@dataclass(frozen=True)
class TextEvaluation(Evaluation):
    """How good a model is on a set of texts; the less surprised one is the greater.

    Parameters
    ----------
    nats : float
        Mean surprisal of a token, the negative logarithm of its probability.
    accuracy : float
        Share of the tokens that were the likeliest.
    steps : float
        Mean steps of a token.
    """

    nats: float
    accuracy: float
    steps: float

    @property
    def rank(self) -> tuple[float, ...]:
        """How little a token surprises."""
        return (-self.nats,)

    def __str__(self) -> str:
        return (
            f"perplexity {exp(self.nats):.3f}, {self.nats / log(2):.4f} bits a token, "
            f"{self.accuracy:.2%} of tokens right; mean steps {self.steps:.2f}"
        )

    def reached(self, target: float) -> bool:
        """Whether so large a share of the tokens was the likeliest."""
        return self.accuracy >= target


@dataclass(frozen=True, eq=False)
class Scores:
    """What a model says of texts, and of those of their tokens that count.

    Parameters
    ----------
    texts : list of Text
        From the shortest to the longest.
    text : Tensor
        `(N,)` int64, which of them each token is of; in order.
    nats : Tensor
        `(N,)` float64, its surprisal.
    right : Tensor
        `(N,)` bool, whether it was the likeliest.
    steps : Tensor
        `(N,)` int64, those in which it was predicted.
    rivals : Tensor
        `(texts, R)`, logits of some tokens in the place of each text's last one.
    """

    texts: list[Text]
    text: Tensor
    nats: Tensor
    right: Tensor
    steps: Tensor
    rivals: Tensor

    @property
    def last(self) -> Tensor:
        """`(texts,)`, which tokens are the last ones of their texts."""
        return torch.bincount(self.text, minlength=len(self.texts)).cumsum(0) - 1

    def evaluation(self) -> TextEvaluation:
        """Means over the tokens."""
        return TextEvaluation(
            nats=float(self.nats.mean()),
            accuracy=float(self.right.double().mean()),
            steps=float(self.steps.double().mean()),
        )

    def by_group(self) -> dict[str, Scores]:
        """The scores of each group of texts; none where there are no groups."""
        names = [text.group for text in self.texts]
        return {
            name: self._only([own == name for own in names]) for name in sorted({*names} - {""})
        }

    def _only(self, chosen: list[bool]) -> Scores:
        mask = torch.tensor(chosen)
        tokens = mask[self.text]
        return Scores(
            texts=[text for text, stays in zip(self.texts, chosen, strict=True) if stays],
            text=(mask.cumsum(0) - 1)[self.text[tokens]],
            nats=self.nats[tokens],
            right=self.right[tokens],
            steps=self.steps[tokens],
            rivals=self.rivals[mask],
        )


def score(
    model: UniversalTransformerLM, texts: Sequence[Text], rivals: Sequence[int] = ()
) -> Scores:
    """Run a model over texts, each token with those before it fed in.

    Parameters
    ----------
    model : UniversalTransformerLM
        The model.
    texts : sequence of Text
        What it is run over.
    rivals : sequence of int
        Tokens to ask about in the place of the last one of each text.

    Raises
    ------
    ValueError
        If there are no texts.
    """
    if not texts:
        raise ValueError("there are no texts to evaluate on")
    ordered = sorted(texts, key=lambda text: len(text.tokens))
    most = min(_MOST_LOGITS // model.config.vocab_size, _MOST_TOKENS)
    size = max(most // len(ordered[-1].tokens), 1)
    parts: list[tuple[Tensor, ...]] = []
    with torch.no_grad(), model.evaluating():
        for start, batch in enumerate(judged(ordered, size)):
            output = model([text.tokens for text in batch], ends=False)
            text, *columns = _counted(batch, output)
            last = output.logits[output.lengths.cumsum(0) - 1]
            parts.append((start * size + text, *columns, last[:, list(rivals)].float().cpu()))
    return Scores(ordered, *(torch.cat(column) for column in zip(*parts, strict=True)))


def _counted(texts: Sequence[Text], output: LMOutput) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of each token that counts: its text, its surprisal, whether it was likeliest, its steps."""
    place = torch.cat([torch.arange(int(length)) for length in output.lengths])
    text = torch.repeat_interleave(output.lengths)
    counts = place >= torch.tensor([text.context for text in texts])[text]
    nats = cross_entropy(output.logits.float(), output.labels, reduction="none").double()
    right = output.logits.argmax(-1) == output.labels
    return text[counts], nats.cpu()[counts], right.cpu()[counts], output.steps.cpu()[counts]


def by_surprisal(scores: Scores) -> list[dict[str, Any]]:
    """Mean steps in ten parts of the tokens, from the least surprising to the most."""
    order = scores.nats.argsort(stable=True)
    return [
        {
            "from": float(scores.nats[part[0]]),
            "to": float(scores.nats[part[-1]]),
            "tokens": len(part),
            "steps": float(scores.steps[part].double().mean()),
        }
        for part in order.tensor_split(_BINS)
        if len(part)
    ]
