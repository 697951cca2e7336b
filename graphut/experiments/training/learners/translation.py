"""Learning to translate."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from graphut.experiments.tasks import Pair, PairTask, Vocabularies
from graphut.experiments.tasks.subwords import Subwords, translation_package
from graphut.experiments.tasks.translation import TranslationTask
from graphut.experiments.training.evaluation import Evaluation
from graphut.experiments.training.learners.pairs import (
    PairLearner,
    by_length,
    decode,
    pair_metrics,
    score_pairs,
)
from graphut.models import UniversalTransformer
from graphut.models.outputs import Generation

_LONGER = 50
_CORPORA = 1000  # drawn to find how much BLEU varies
_sacrebleu = partial(translation_package, "sacrebleu", "BLEU needs")


class TranslationLearner(PairLearner):
    """The learner of translations: they are pairs, and evaluated by BLEU, text beside text.

    An output may be 50 tokens longer than the longest source (arXiv 1706.03762, section 6.1).
    """

    task_kind = TranslationTask
    example: ClassVar[str] = "sentence"
    metric_meanings: ClassVar[Mapping[str, str]] = {
        "bleu": "BLEU of all sentences together, from 0 to 100",  # first, since it is drawn
        **PairLearner.metric_meanings,
    }
    rank_by = ("bleu",)
    target_metric = "bleu_share"
    summary = (
        "BLEU {bleu:.2f}; mean steps {encoder_steps:.2f} in the encoder, {decoder_steps:.2f} in "
        "the decoder"
    )

    @staticmethod
    def derived(metrics: Mapping[str, Any]) -> dict[str, Any]:
        """Return BLEU as a share of 100."""
        return {"bleu_share": metrics["bleu"] / 100}

    def sizes(self, task: PairTask) -> dict[str, int]:
        """Return the tokens of the two vocabularies, if the package sacrebleu is there."""
        _sacrebleu()  # that it is missing is not to be found out after an epoch
        return super().sizes(task)

    def evaluate_in_detail(
        self,
        model: UniversalTransformer,
        vocabularies: Vocabularies,
        examples: Sequence[Pair],
        **options: Any,
    ) -> tuple[Evaluation, dict[str, Any]]:
        """Translate, and compare the texts; the details are steps by length."""
        longest = max(len(source) for source, _ in examples) + _LONGER + 1  # 1 for <eos>
        max_length = min(longest, model.config.max_length)
        results = decode(model, examples, max_length=max_length, **options)
        subwords = vocabularies["target"]
        assert isinstance(subwords, Subwords)
        write = subwords.write
        outputs, references = [write(x.tokens) for x in results], [write(t) for _, t in examples]
        score, counted = bleu(outputs, references, subwords.tokenized)
        scores = score_pairs(results, examples)
        return self.evaluation(bleu=score, **pair_metrics(scores)), {
            **counted,
            "by_source_length": by_length(scores, "source_length"),
        }

    def _with_steps(
        self, vocabularies: Vocabularies, source: Sequence[int], result: Generation
    ) -> str:
        steps = super()._with_steps(vocabularies, source, result)
        return f"{steps}\ntext    {vocabularies['target'].write(result.tokens)}"


def bleu(
    outputs: Sequence[str], references: Sequence[str], tokenized: bool = False
) -> tuple[float, dict[str, Any]]:
    """Return the BLEU of a corpus (Papineni et al. 2002), from 0 to 100, and how it was counted.

    It is that of sacreBLEU (arXiv 1804.08771): with its signature, and with half the width of the
    interval that holds 95% of 1000 corpora drawn from these sentences. Outputs and references are
    equally many sentences in the same order. If they are `tokenized`, their tokens are compared as
    they stand.
    """
    # Forced: sentences that look tokenised are said to be so where the data is described.
    metric = _sacrebleu().metrics.BLEU(force=True, tokenize="none" if tokenized else "13a")
    found = metric.corpus_score(list(outputs), [list(references)], n_bootstrap=_CORPORA)
    signature = metric.get_signature()
    said = json.loads(found.format(is_json=True, signature=str(signature)))
    width = said.get("confidence_var", 0.0)  # it says none where no output has a word
    return found.score, {"bleu_signature": str(signature), "bleu_interval": width}
