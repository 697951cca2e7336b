"""Training and evaluation of translation models."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from graphut.experiments.tasks import Pair, PairTask
from graphut.experiments.tasks.subwords import Subwords, sacrebleu_package
from graphut.experiments.training.evaluation import Evaluation
from graphut.experiments.training.generation import Answer
from graphut.experiments.training.learners.pairs import PairLearner, by_number, decode, pair_metrics

_LONGER = 50
_CORPORA = 1000  # bootstrap samples for the interval of BLEU


class TranslationLearner(PairLearner):
    """Trains translation models, and evaluates the generated texts by BLEU.

    An output may be 50 tokens longer than the longest source (arXiv 1706.03762, section 6.1).
    """

    example: ClassVar[str] = "sentence"
    metric_meanings: ClassVar[Mapping[str, str]] = {
        "bleu": "corpus BLEU, from 0 to 100",  # first, because charts show the first metric
        **PairLearner.metric_meanings,
    }
    rank_by = ("bleu",)
    target_metric = "bleu_share"
    summary = "BLEU {bleu:.2f}, steps {encoder_steps:.2f}/{decoder_steps:.2f}"

    @staticmethod
    def derived(metrics: Mapping[str, Any]) -> dict[str, Any]:
        return {"bleu_share": metrics["bleu"] / 100}

    @classmethod
    def sizes(cls, task: PairTask) -> dict[str, int]:
        """Return the sizes of the two vocabularies; raise `ImportError` without sacrebleu."""
        sacrebleu_package()  # raise before the first epoch, not after it
        return super().sizes(task)

    def evaluate_in_detail(
        self, examples: Sequence[Pair], **options: Any
    ) -> tuple[Evaluation, dict[str, Any]]:
        longest = max(len(source) for source, _ in examples) + _LONGER + 1  # 1 for <eos>
        max_length = min(longest, self.model.config.max_length)
        answered = decode(self.model, examples, max_length=max_length, **options)
        subwords = self.vocabularies["target"]
        assert isinstance(subwords, Subwords)
        outputs = [subwords.write(result.tokens) for _, result in answered]
        references = [subwords.write(target) for _, target in examples]
        score, details = bleu(outputs, references, subwords.tokenized)
        details["by_source_length"] = by_number(answered, lambda pair: len(pair[0]))
        return self.evaluation(bleu=score, **pair_metrics(answered)), details

    def _answer(self, *args: Any, **options: Any) -> Answer:
        answer = super()._answer(*args, **options)
        note = "\n".join(filter(None, [f"text    {answer.text}", answer.note]))
        return replace(answer, note=note)


def bleu(
    outputs: Sequence[str], references: Sequence[str], tokenized: bool = False
) -> tuple[float, dict[str, Any]]:
    """Compute the BLEU of a corpus (Papineni et al. 2002), from 0 to 100, with sacreBLEU.

    Also return the signature of sacreBLEU (arXiv 1804.08771), and half the width of the 95%
    confidence interval. Sentences that are already `tokenized` are not tokenized again.
    """
    # `force` suppresses the warning about sentences that look tokenized.
    metric = sacrebleu_package().metrics.BLEU(force=True, tokenize="none" if tokenized else "13a")
    result = metric.corpus_score(list(outputs), [list(references)], n_bootstrap=_CORPORA)
    signature = metric.get_signature()
    report = json.loads(result.format(is_json=True, signature=str(signature)))
    width = report.get("confidence_var", 0.0)  # missing if no output has a word
    return result.score, {"bleu_signature": str(signature), "bleu_interval": width}
