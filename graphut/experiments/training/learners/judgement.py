"""How good a model is on pairs: decoding without the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graphut.experiments.tasks import EOS, Pair
from graphut.experiments.training.bar import judged
from graphut.experiments.training.learner import Evaluation
from graphut.models import UniversalTransformer
from graphut.models.outputs import Generation


@dataclass(frozen=True)
class PairEvaluation(Evaluation):
    """How good a model is on a set of pairs; the more accurate one is the greater.

    Parameters
    ----------
    sequence_accuracy : float
        Share of the sequences that are right from the first token to the last.
    token_accuracy : float
        Share of the target's tokens, `<eos>` included, that the output has in their place.
    encoder_steps, decoder_steps : float
        Mean steps of a source token, and of an output token, `<eos>` included.
    """

    sequence_accuracy: float
    token_accuracy: float
    encoder_steps: float
    decoder_steps: float

    @property
    def rank(self) -> tuple[float, ...]:
        """The accuracies: steps do not count."""
        return self.sequence_accuracy, self.token_accuracy

    def __str__(self) -> str:
        return (
            f"{self.sequence_accuracy:.2%} of sequences and {self.token_accuracy:.2%} of tokens "
            f"right; mean steps {self.encoder_steps:.2f} in the encoder, "
            f"{self.decoder_steps:.2f} in the decoder"
        )

    def reached(self, target: float) -> bool:
        """Whether so large a share of the sequences is right."""
        return self.sequence_accuracy >= target


@dataclass(frozen=True)
class Judgement:
    """One output beside its target.

    Parameters
    ----------
    source_length, target_length : int
        Tokens, without `<eos>`.
    right : bool
        Whether the output is the target.
    right_tokens : int
        Tokens of the target, `<eos>` included, that the output has in their place.
    output_length : int
        Tokens of the output, `<eos>` included if it came.
    encoder_steps, decoder_steps : int
        Steps of all source tokens, and of all output tokens.
    """

    source_length: int
    target_length: int
    right: bool
    right_tokens: int
    output_length: int
    encoder_steps: int
    decoder_steps: int

    @classmethod
    def of(cls, result: Generation, pair: Pair) -> Judgement:
        """Compare what a model has generated with the target."""
        source, target = pair
        both = zip([*result.tokens, EOS], [*target, EOS], strict=False)
        return cls(
            source_length=len(source),
            target_length=len(target),
            right=result.tokens == target,
            right_tokens=sum(got == wanted for got, wanted in both),
            output_length=len(result.steps),
            encoder_steps=sum(result.source_steps),
            decoder_steps=sum(result.steps),
        )


def answer(
    model: UniversalTransformer, pairs: Sequence[Pair], *, batch_size: int = 200, **options: Any
) -> list[Generation]:
    """Decode the sources, each output's tokens from those before it.

    Parameters
    ----------
    model : UniversalTransformer
        The model.
    pairs : sequence of Pair
        Sources and targets. An output that goes on after the longest target is cut off there,
        unless told otherwise: it is wrong.
    batch_size : int
        Sentences decoded at a time.
    **options
        For `model.generate`, which is greedy without any.

    Returns
    -------
    list of Generation
        One for each pair, in order.

    Raises
    ------
    ValueError
        If there are no pairs.
    """
    if not pairs:
        raise ValueError("there are no pairs to evaluate on")
    longest = max(len(target) for _, target in pairs) + 1  # 1 for <eos>
    # Sentences of like length end at about the same time.
    order = sorted(range(len(pairs)), key=lambda index: len(pairs[index][0]))
    found: dict[int, Generation] = {}
    for batch in judged(order, batch_size):
        sources = [pairs[index][0] for index in batch]
        results = model.generate(sources, **{"max_length": longest, **options})
        found.update(zip(batch, results, strict=True))
    return [found[index] for index in range(len(pairs))]


def judge(model: UniversalTransformer, pairs: Sequence[Pair], **options: Any) -> list[Judgement]:
    """Each answer beside its target; the options are those of `answer`."""
    results = answer(model, pairs, **options)
    return [Judgement.of(*both) for both in zip(results, pairs, strict=True)]


def summarize(judgements: Sequence[Judgement]) -> PairEvaluation:
    """Shares of what is right, and means of steps.

    Examples
    --------
    >>> print(summarize([Judgement(2, 2, True, 3, 3, 2, 6), Judgement(2, 2, False, 0, 1, 6, 1)]))
    50.00% of sequences and 50.00% of tokens right; mean steps 2.00 in the encoder, 1.75 in
    the decoder
    """

    def total(name: str) -> int:
        return sum(getattr(judgement, name) for judgement in judgements)

    return PairEvaluation(
        sequence_accuracy=total("right") / len(judgements),
        token_accuracy=total("right_tokens") / (total("target_length") + len(judgements)),
        encoder_steps=total("encoder_steps") / total("source_length"),
        decoder_steps=total("decoder_steps") / total("output_length"),
    )
