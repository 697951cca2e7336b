"""How good a model is: greedy decoding, without the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from graphut.models import UniversalTransformer
from graphut.tasks import EOS, Pair


@dataclass(frozen=True, order=True)
class Evaluation:
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
    encoder_steps: float = field(compare=False)
    decoder_steps: float = field(compare=False)

    def __str__(self) -> str:
        return (
            f"{self.sequence_accuracy:.2%} of sequences and {self.token_accuracy:.2%} of tokens "
            f"right; mean steps {self.encoder_steps:.2f} in the encoder, "
            f"{self.decoder_steps:.2f} in the decoder"
        )


def evaluate(
    model: UniversalTransformer,
    pairs: Sequence[Pair],
    *,
    max_length: int,
    batch_size: int = 200,
) -> Evaluation:
    """Decode the sources greedily, each token from those before it, and compare.

    Parameters
    ----------
    model : UniversalTransformer
        The model.
    pairs : sequence of Pair
        Sources and targets.
    max_length : int
        Tokens in the longest target; an output that goes on after it is wrong.
    batch_size : int
        Sentences decoded at a time.

    Raises
    ------
    ValueError
        If there are no pairs.
    """
    if not pairs:
        raise ValueError("there are no pairs to evaluate on")
    # Sentences of like length end at about the same time.
    pairs = sorted(pairs, key=lambda pair: len(pair[0]))
    outputs, steps, source_steps = [], [], []
    for start in range(0, len(pairs), batch_size):
        sources = [source for source, _ in pairs[start : start + batch_size]]
        for result in model.generate(sources, max_length=max_length + 1):  # 1 for <eos>
            outputs.append(result.tokens)
            steps += result.steps
            source_steps += result.source_steps
    return Evaluation(
        *accuracies(outputs, [target for _, target in pairs]),
        encoder_steps=sum(source_steps) / len(source_steps),
        decoder_steps=sum(steps) / len(steps),
    )


def accuracies(outputs: Sequence[list[int]], targets: Sequence[list[int]]) -> tuple[float, float]:
    """Shares of right sequences and of right tokens, `<eos>` included.

    Examples
    --------
    >>> accuracies([[5, 6], [5]], [[5, 6], [5, 6]])
    (0.5, 0.6666666666666666)
    """
    right = [
        got == wanted
        for output, target in zip(outputs, targets, strict=True)
        for got, wanted in zip([*output, EOS], [*target, EOS], strict=False)
    ]
    sequences = sum(output == target for output, target in zip(outputs, targets, strict=True))
    return sequences / len(targets), sum(right) / sum(len(target) + 1 for target in targets)
