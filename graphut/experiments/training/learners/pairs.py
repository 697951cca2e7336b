"""Learning to answer one sequence with another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from operator import eq
from typing import Any, ClassVar

import torch

from graphut._dgl import DGLGraph
from graphut.attention.layout import upload
from graphut.experiments.generation_options import EVALUATION_OPTIONS, GenerationOptions
from graphut.experiments.tasks import Pair, PairTask, Vocabularies
from graphut.experiments.tasks.listops import Brackets
from graphut.experiments.tasks.pairs import read_pairs
from graphut.experiments.training.evaluation import Evaluation, score_batches
from graphut.experiments.training.generation import (
    GeneratedText,
    PonderedPart,
    decoder_part,
    generate,
    steps_table,
    written_tokens,
)
from graphut.experiments.training.learner import ExampleAnswer, Learner, Outcome, count_nodes
from graphut.models import UniversalTransformer
from graphut.models.outputs import Generation
from graphut.sentences import BOS, EOS, target_labels

_NUM_SHOWN = 3
_MOST_ROWS = 20
_LONGER = 10  # tokens that an answer to look at may be longer than the right one


@dataclass(frozen=True)
class PairScore:
    """Counts over one output beside its target."""

    source_length: int  # without <eos>
    target_length: int  # without <eos>
    right: bool  # whether the output is the target
    right_tokens: int  # of the target, <eos> included, that the output has in the same position
    output_length: int  # <eos> included, if it came
    encoder_steps: int  # of all source tokens
    decoder_steps: int  # of all output tokens


class PairLearner(Learner[Pair, PairTask, UniversalTransformer]):
    """The learner of pairs, with an encoder and a decoder: it evaluates what is decoded."""

    task_kind = PairTask
    model_kind = UniversalTransformer
    generation_kind = GenerationOptions
    evaluation_options = EVALUATION_OPTIONS
    from_task = ("source_vocab", "target_vocab")
    example: ClassVar[str] = "sequence"
    metric_meanings: ClassVar[Mapping[str, str]] = {
        "sequence_accuracy": "share of sequences that are right from the first token to the last",
        "token_accuracy": "share of the target's tokens that the output has in the same position",
        "encoder_steps": "mean steps of a source token",
        "decoder_steps": "mean steps of an output token, <eos> included",
    }
    rank_by: ClassVar[Sequence[str]] = ("sequence_accuracy", "token_accuracy")
    target_metric: ClassVar[str] = "sequence_accuracy"
    summary: ClassVar[str] = (
        "{sequence_accuracy:.2%} of sequences and {token_accuracy:.2%} of tokens right; mean steps "
        "{encoder_steps:.2f} in the encoder, {decoder_steps:.2f} in the decoder"
    )

    def sizes(self, task: PairTask) -> dict[str, int]:
        """Return the tokens of the two vocabularies."""
        return {
            "source_vocab": len(task.source_vocabulary),
            "target_vocab": len(task.target_vocabulary),
        }

    def outcome(
        self, model: UniversalTransformer, batch: list[Pair], label_smoothing: float
    ) -> Outcome:
        """Return the loss of each target's tokens, predicted from those before them."""
        graph = model.sentence_graph(*zip(*batch, strict=True))
        return graph_outcome(model, graph, label_smoothing)

    def counts(self, model: UniversalTransformer, batch: list[Pair]) -> dict[str, int]:
        """Count the tokens of targets, and the nodes of sources and targets."""
        ends = 2 * model.config.add_bos_eos
        sources = [len(source) + ends for source, _ in batch]
        targets = [len(target) + 1 for _, target in batch]  # 1 for <eos>
        return {
            "loss": sum(targets),
            "encoder": count_nodes(model.encoder_topology, sources),
            "decoder": count_nodes(model.decoder_topology, targets),
        }

    def evaluate_in_detail(
        self,
        model: UniversalTransformer,
        vocabularies: Vocabularies,
        examples: Sequence[Pair],
        **options: Any,
    ) -> tuple[Evaluation, dict[str, Any]]:
        """Decode, and compare; the details are accuracies and steps by length.

        They are also by how deep sources are nested, and by the operator of the outermost list,
        where the vocabulary has brackets.
        """
        scores = score_pairs(decode(model, examples, **options), examples)
        sides = ("source_length", "target_length")
        details = {f"by_{side}": by_length(scores, side) for side in sides}
        symbols = vocabularies["source"]
        if isinstance(symbols, Brackets):
            nesting = [symbols.nesting(source) for source, _ in examples]
            details["by_nesting"] = by_number(scores, nesting)
            first = ["".join(symbols.decode(source[:1])) for source, _ in examples]
            details["by_operator"] = by_operator(scores, first)
        return self.evaluation(**pair_metrics(scores)), details

    def show(self, model: UniversalTransformer, task: PairTask) -> Iterator[str]:
        """Yield outputs for a few sources, with room for the longest target and its `<eos>`."""
        sources = [source for source, _ in task.test[:_NUM_SHOWN]]
        longest = max(len(target) for _, target in task.test)
        results = model.generate(sources, max_length=longest + 1)
        for source, result in zip(sources, results, strict=True):
            yield self._with_steps(task.vocabularies, source, result)

    def generate(
        self,
        model: UniversalTransformer,
        vocabularies: Vocabularies,
        texts: Sequence[str],
        options: GenerationOptions,
    ) -> Iterator[GeneratedText]:
        """Yield the output for each text, and under each token the number of steps it took."""
        sources = [vocabularies["source"].read(text) for text in texts]
        for source, result in generate(model, sources, options):
            cut = "" if result.ended else f"\ncut off at the max_length of {options.max_length}"
            answer = vocabularies["target"].write(result.tokens)
            yield GeneratedText(answer, self._with_steps(vocabularies, source, result) + cut)

    def look_inside(
        self,
        model: UniversalTransformer,
        vocabularies: Vocabularies,
        text: str,
        options: GenerationOptions,
    ) -> tuple[str, list[PonderedPart]]:
        """Return the output for a text, and how the encoder and the decoder pondered."""
        source = vocabularies["source"].read(text)
        [result] = model.generate([source], **options.for_model(), get_attention=True)
        parts = self._parts(model, vocabularies, source, result)
        return vocabularies["target"].write(result.tokens), parts

    def answer(self, model: UniversalTransformer, task: PairTask, example: Pair) -> ExampleAnswer:
        """Return the output for the source of a pair, which is right if it is the target."""
        [found] = self.answers(model, task, [example])
        return found

    def answers(
        self, model: UniversalTransformer, task: PairTask, examples: Sequence[Pair]
    ) -> list[ExampleAnswer]:
        """Return the outputs for the sources of pairs, in one batch."""
        sources, targets = zip(*examples, strict=True)
        longest = min(max(map(len, targets)) + _LONGER, model.config.max_length)
        results = model.generate(sources, max_length=longest, get_attention=True)
        write = task.target_vocabulary.write
        return [
            ExampleAnswer(
                write(result.tokens),
                write(target),
                result.tokens == target,
                self._parts(model, task.vocabularies, source, result),
            )
            for source, target, result in zip(sources, targets, results, strict=True)
        ]

    @staticmethod
    def _parts(
        model: UniversalTransformer,
        vocabularies: Vocabularies,
        source: list[int],
        result: Generation,
    ) -> list[PonderedPart]:
        assert result.encoder is not None and result.decoder is not None
        framed = [BOS, *source, EOS] if model.config.add_bos_eos else source
        read, target = vocabularies["source"].readable(framed), vocabularies["target"]
        return [
            PonderedPart("encoder", read, read, result.encoder),
            decoder_part(target, written_tokens(result), result.decoder),
        ]

    def read(
        self, path: str, vocabularies: Vocabularies, config: Any, task: PairTask
    ) -> list[Pair]:
        """Return the pairs in a file: see `graphut.experiments.tasks.Pairs`."""
        return read_pairs(path, vocabularies["source"], vocabularies["target"], config)

    def _with_steps(
        self, vocabularies: Vocabularies, source: Sequence[int], result: Generation
    ) -> str:
        before = vocabularies["source"].readable(source)
        after = vocabularies["target"].readable(written_tokens(result))
        return (
            f"{steps_table('input', before, result.source_steps)}\n"
            f"{steps_table('output', after, result.steps)}"
        )


def graph_outcome(
    model: UniversalTransformer, graph: DGLGraph, label_smoothing: float = 0.0
) -> Outcome:
    """Return the loss of a model on a graph from its `sentence_graph`, with targets."""
    output = model(graph)
    [labels] = upload([target_labels(graph)], output.logits.device)
    logits = output.logits.to(torch.promote_types(output.logits.dtype, torch.float32))
    ponders = {"encoder": output.encoder, "decoder": output.decoder}
    return Outcome.of(logits, labels, label_smoothing, **ponders)


def decode(
    model: UniversalTransformer, pairs: Sequence[Pair], *, batch_size: int = 200, **options: Any
) -> list[Generation]:
    """Decode the sources, in batches of sentences of like length; return the outputs in order.

    The options are those of `model.generate`, which is greedy without any. An output that goes on
    after the longest target is cut off there, unless there is a `max_length`: it is wrong.
    """
    longest = max((len(target) for _, target in pairs), default=0) + 1  # 1 for <eos>

    def generate(batch: list[int]) -> list[tuple[int, Generation]]:
        sources = [pairs[index][0] for index in batch]
        results = model.generate(sources, **{"max_length": longest, **options})
        return list(zip(batch, results, strict=True))

    every = range(len(pairs))
    scored = score_batches(generate, every, batch_size, lambda i: len(pairs[i][0]), "pairs")
    found = dict(chain.from_iterable(scored))
    return [found[index] for index in every]


def score_pairs(results: Sequence[Generation], pairs: Sequence[Pair]) -> list[PairScore]:
    """Compare each output with its target."""
    return [
        PairScore(
            source_length=len(source),
            target_length=len(target),
            right=result.tokens == target,
            right_tokens=sum(map(eq, [*result.tokens, EOS], [*target, EOS])),
            output_length=len(result.steps),
            encoder_steps=sum(result.source_steps),
            decoder_steps=sum(result.steps),
        )
        for result, (source, target) in zip(results, pairs, strict=True)
    ]


def pair_metrics(scores: Sequence[PairScore]) -> dict[str, float]:
    """Return shares of what is right, and means of steps."""

    def total(name: str) -> int:
        return sum(getattr(score, name) for score in scores)

    return {
        "sequence_accuracy": total("right") / len(scores),
        "token_accuracy": total("right_tokens") / (total("target_length") + len(scores)),
        "encoder_steps": total("encoder_steps") / total("source_length"),
        "decoder_steps": total("decoder_steps") / total("output_length"),
    }


def by_length(scores: Sequence[PairScore], length: str) -> list[dict[str, Any]]:
    """Return the metrics of each range of lengths, "source_length" or "target_length"."""
    return by_number(scores, [getattr(score, length) for score in scores])


def by_operator(scores: Sequence[PairScore], first: Sequence[str]) -> list[dict[str, Any]]:
    """Return the metrics for each operator, the first symbol of a list."""
    groups: dict[str, list[PairScore]] = {}
    for symbol, score in zip(first, scores, strict=True):
        groups.setdefault(symbol, []).append(score)
    return [
        {"operator": symbol, "examples": len(own), **pair_metrics(own)}
        for symbol, own in sorted(groups.items())
        if symbol.startswith("[")  # not a digit alone
    ]


def by_number(scores: Sequence[PairScore], numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Return the metrics of each range of numbers, of which each score has one.

    Ranges are 1, 2, 5, 10, 20, 50, ... wide, the least that makes at most 20 of them. A row
    says which numbers it has from the least to the largest; ranges without a sequence have no row.
    """
    largest = max(numbers)
    widths = (factor * 10**power for power in count() for factor in (1, 2, 5))
    width = next(width for width in widths if width * _MOST_ROWS >= largest)
    groups: dict[int, list[tuple[int, PairScore]]] = {}
    for number, score in zip(numbers, scores, strict=True):
        # An empty target is among the shortest.
        groups.setdefault(max(number - 1, 0) // width, []).append((number, score))
    rows = []
    for _, group in sorted(groups.items()):
        own, of_group = zip(*group, strict=True)
        ends = {"from": min(own), "to": max(own), "examples": len(own)}
        rows.append({**ends, **pair_metrics(of_group)})
    return rows
