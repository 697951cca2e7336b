"""Training and evaluation of sequence-to-sequence models, such as translation models."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from operator import eq
from statistics import fmean
from typing import Any, ClassVar

import torch

from graphut._tokens import BOS, EOS
from graphut.attention.layout import upload
from graphut.experiments.tasks import Pair, PairTask
from graphut.experiments.training.config import GenerationOptions
from graphut.experiments.training.evaluation import Evaluation, answer_in_batches, grouped
from graphut.experiments.training.generation import (
    Answer,
    PonderedPart,
    decoder_part,
    generate,
    written_tokens,
)
from graphut.experiments.training.learners import Learner, Outcome
from graphut.models import UniversalTransformer
from graphut.models.outputs import Generation
from graphut.sentences import target_labels

_MOST_ROWS = 20
_LONGER = 10  # extra tokens that an answer to an example may have
_LONGER_TEXT = 50  # and a translation
_CORPORA = 1000  # bootstrap samples for the interval of BLEU

Answered = tuple[Pair, Generation]
"""A pair and the output for its source."""


class PairLearner(Learner[Pair, PairTask, UniversalTransformer]):
    """Trains and evaluates models with an encoder and a decoder on pairs of sequences."""

    model_kind = UniversalTransformer
    example: ClassVar[str] = "sequence"
    metric_meanings: ClassVar[Mapping[str, str]] = {
        "sequence_accuracy": "share of outputs that equal their target",
        "token_accuracy": "share of target tokens that the output has at the same position",
        "encoder_steps": "mean steps of a source token",
        "decoder_steps": "mean steps of an output token, <eos> included",
    }
    rank_by: ClassVar[Sequence[str]] = ("sequence_accuracy", "token_accuracy")
    target_metric: ClassVar[str] = "sequence_accuracy"
    summary: ClassVar[str] = (
        "sequence accuracy {sequence_accuracy:.2%}, token accuracy {token_accuracy:.2%}, "
        "steps {encoder_steps:.2f}/{decoder_steps:.2f}"
    )

    def outcome(self, batch: list[Pair], label_smoothing: float) -> Outcome:
        sources, targets = zip(*batch, strict=True)
        output = self.model(sources, targets)
        [labels] = upload([target_labels(targets)], output.logits.device)
        logits = output.logits.to(torch.promote_types(output.logits.dtype, torch.float32))
        ponders = {"encoder": output.encoder, "decoder": output.decoder}
        return Outcome.of(logits, labels, label_smoothing, **ponders)

    def evaluate_in_detail(
        self, examples: Sequence[Pair], **options: Any
    ) -> tuple[Evaluation, dict[str, Any]]:
        """Return metrics of the decoded sources, and details (see `details`)."""
        answered = decode(self.model, examples, **options)
        return self.evaluation(**pair_metrics(answered)), self.details(answered)

    def details(self, answered: Sequence[Answered]) -> dict[str, Any]:
        """Return rows of metrics by the length of the source."""
        return {"by_source_length": by_number(answered, lambda pair: len(pair[0]))}

    def parse(self, text: str) -> list[int]:
        if not (tokens := self.model.encode(text)):
            raise ValueError(f"{text!r} is empty: a source needs at least one symbol")
        return tokens

    def generate(
        self, texts: Sequence[str], options: GenerationOptions, *, get_attention: bool = False
    ) -> Iterator[Answer]:
        sources = [self.parse(text) for text in texts]
        for source, result in generate(self.model, sources, options, get_attention=get_attention):
            note = "" if result.ended else f"cut off at the max_length of {options.max_length}"
            yield self._answer(source, result, note)

    def answers(self, examples: Sequence[Pair]) -> list[Answer]:
        sources, targets = zip(*examples, strict=True)
        longest = min(max(map(len, targets)) + _LONGER, self.model.config.max_length)
        results = self.model.generate(sources, max_length=longest, get_attention=True)
        answers = []
        for source, target, result in zip(sources, targets, results, strict=True):
            answer = self._answer(source, result)
            correct = self.vocabularies["target"].write(target)
            score = equal_tokens(target, result) / (len(target) + 1)
            known = {"correct": correct, "is_correct": result.tokens == target, "score": score}
            answers.append(replace(answer, **known))
        return answers

    def _answer(self, source: list[int], result: Generation, note: str = "") -> Answer:
        steps = result.source_steps
        if result.encoder is not None:  # with <bos> and <eos>
            source = [BOS, *source, EOS] if self.model.config.add_bos_eos else source
            steps = result.encoder.steps[: len(source)].tolist()
        names, target = self.vocabularies["source"].readable(source), self.vocabularies["target"]
        written = written_tokens(result)
        parts = [
            PonderedPart("encoder", "input", names, names, steps, result.encoder),
            decoder_part("output", target, written, result.steps, result.decoder),
        ]
        text = target.write(result.tokens)
        if hasattr(target, "merges"):  # subwords, which do not show their text
            note = "\n".join(filter(None, [f"text    {text}", note]))
        return Answer(text, parts, note=note)

    def read(self, path: str, task: PairTask) -> list[Pair]:
        source, target = self.vocabularies["source"], self.vocabularies["target"]
        from graphut.experiments.tasks.pairs import read_pairs  # training needs no such file

        return read_pairs(path, source, target)


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

    def evaluate_in_detail(
        self, examples: Sequence[Pair], **options: Any
    ) -> tuple[Evaluation, dict[str, Any]]:
        longest = max(len(source) for source, _ in examples) + _LONGER_TEXT + 1  # 1 for <eos>
        max_length = min(longest, self.model.config.max_length)
        answered = decode(self.model, examples, max_length=max_length, **options)
        subwords: Any = self.vocabularies["target"]
        outputs = [subwords.write(result.tokens) for _, result in answered]
        references = [subwords.write(target) for _, target in examples]
        score, details = bleu(outputs, references, subwords.tokenized)
        details |= self.details(answered)
        return self.evaluation(bleu=score, **pair_metrics(answered)), details


def decode(
    model: UniversalTransformer, pairs: Sequence[Pair], *, batch_size: int = 200, **options: Any
) -> list[Answered]:
    """Decode the sources in batches of similar length; return `(pair, output)` in the given order.

    `options` are those of `model.generate`. The default `max_length` is that of the longest target.
    """
    longest = max((len(target) for _, target in pairs), default=0) + 1  # 1 for <eos>
    options = {"max_length": longest, **options}

    def answer(batch: list[Pair]) -> list[Generation]:
        return model.generate([source for source, _ in batch], **options)

    return answer_in_batches(answer, pairs, batch_size, lambda pair: len(pair[0]))


def pair_metrics(answered: Sequence[Answered]) -> dict[str, float]:
    """Compute the metrics that `PairLearner.metric_meanings` lists from pairs and outputs."""
    correct = [result.tokens == target for (_, target), result in answered]
    tokens = sum(equal_tokens(target, result) for (_, target), result in answered)
    return {
        "sequence_accuracy": sum(correct) / len(correct),
        "token_accuracy": tokens / sum(len(target) + 1 for (_, target), _ in answered),
        "encoder_steps": fmean(chain.from_iterable(result.source_steps for _, result in answered)),
        "decoder_steps": fmean(chain.from_iterable(result.steps for _, result in answered)),
    }


def equal_tokens(target: Sequence[int], result: Generation) -> int:
    """Return the number of target tokens, <eos> included, that the output has at their position."""
    return sum(map(eq, [*result.tokens, EOS], [*target, EOS]))


def by_number(
    answered: Sequence[Answered], number_of: Callable[[Pair], int]
) -> list[dict[str, Any]]:
    """Return rows of metrics for ranges of `number_of(pair)`, such as the length of a pair.

    The width of the ranges is the smallest of 1, 2, 5, 10, 20, 50, ... with at most 20 ranges.
    A row contains the smallest and the largest number in its range. Empty ranges have no row.
    """
    most = max(number_of(pair) for pair, _ in answered)
    widths = (factor * 10**power for power in count() for factor in (1, 2, 5))
    width = next(width for width in widths if width * _MOST_ROWS >= most)
    rows = []
    # The number 0 is in the first range.
    for group in grouped(answered, lambda each: max(number_of(each[0]) - 1, 0) // width).values():
        numbers = [number_of(pair) for pair, _ in group]
        ends = {"from": min(numbers), "to": max(numbers), "examples": len(numbers)}
        rows.append({**ends, **pair_metrics(group)})
    return rows


def bleu(
    outputs: Sequence[str], references: Sequence[str], tokenized: bool = False
) -> tuple[float, dict[str, Any]]:
    """Compute the BLEU of a corpus (Papineni et al. 2002), from 0 to 100, with sacreBLEU.

    Also return the signature of sacreBLEU (arXiv 1804.08771), and half the width of the 95%
    confidence interval. Sentences that are already `tokenized` are not tokenized again.
    """
    from graphut.experiments.tasks.translation import sacrebleu_package

    # `force` suppresses the warning about sentences that look tokenized.
    metric = sacrebleu_package().metrics.BLEU(force=True, tokenize="none" if tokenized else "13a")
    result = metric.corpus_score(list(outputs), [list(references)], n_bootstrap=_CORPORA)
    signature = metric.get_signature()
    report = json.loads(result.format(is_json=True, signature=str(signature)))
    width = report.get("confidence_var", 0.0)  # missing if no output has a word
    return result.score, {"bleu_signature": str(signature), "bleu_interval": width}
