"""Learning to translate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from graphut.experiments.tasks import Pair, PairTask, TranslationTask, Vocabulary
from graphut.experiments.training.bleu import bleu, sacrebleu_package
from graphut.experiments.training.learners.judgement import (
    Judgement,
    PairEvaluation,
    answer,
    summarize,
)
from graphut.experiments.training.learners.lengths import by_length
from graphut.experiments.training.learners.pairs import PairLearner
from graphut.models import UniversalTransformer
from graphut.models.outputs import Generation

_LONGER = 50


@dataclass(frozen=True)
class TranslationEvaluation(PairEvaluation):
    """How good translations are; those of more BLEU are the greater.

    Parameters
    ----------
    bleu : float
        Of all sentences together, from 0 to 100.
    """

    bleu: float

    @property
    def rank(self) -> tuple[float, ...]:
        """BLEU alone."""
        return (self.bleu,)

    def __str__(self) -> str:
        return (
            f"BLEU {self.bleu:.2f}; mean steps {self.encoder_steps:.2f} in the encoder, "
            f"{self.decoder_steps:.2f} in the decoder"
        )

    def reached(self, target: float) -> bool:
        """Whether BLEU is so large a share of 100."""
        return self.bleu >= 100 * target


class TranslationLearner(PairLearner):
    """Translations are learned as pairs are, and judged by BLEU: text beside text.

    An output may be 50 tokens longer than the longest source (arXiv 1706.03762, section 6.1).
    """

    task_kind = TranslationTask  # type: ignore[assignment]
    evaluation_kind = TranslationEvaluation
    examples: ClassVar[str] = "sentences"

    def sizes(self, task: PairTask) -> dict[str, int]:
        """Tokens of the two vocabularies."""
        sacrebleu_package()  # that it is missing is not to be found out after an epoch
        return super().sizes(task)

    def record(
        self,
        model: UniversalTransformer,
        vocabularies: Mapping[str, Vocabulary],
        examples: Sequence[Pair],
        **options: Any,
    ) -> tuple[TranslationEvaluation, dict[str, Any]]:
        """Translate, and compare the texts; the record has steps by length."""
        longest = max(len(source) for source, _ in examples) + _LONGER + 1  # 1 for <eos>
        room = min(longest, model.config.max_length)
        results = answer(model, examples, max_length=room, **options)
        write = vocabularies["target"].write
        found = bleu([write(x.tokens) for x in results], [write(target) for _, target in examples])
        judgements = [Judgement.of(*both) for both in zip(results, examples, strict=True)]
        return TranslationEvaluation(bleu=found.score, **summarize(judgements).to_dict()), {
            "bleu_signature": found.signature,
            "by_source_length": by_length(judgements, "source_length"),
        }

    def _answer(
        self, vocabularies: Mapping[str, Vocabulary], source: Sequence[int], result: Generation
    ) -> str:
        steps = super()._answer(vocabularies, source, result)
        return f"{steps}\ntext    {vocabularies['target'].write(result.tokens)}"
