"""Learning to answer one sequence with another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from torch.nn.functional import cross_entropy

from graphut._dgl import DGLGraph
from graphut.experiments.tasks import EOS, Pair, PairTask, Vocabulary, read_pairs
from graphut.experiments.training.learner import Learner, Outcome, Said
from graphut.experiments.training.learners.generation import GenerationOptions, generate
from graphut.experiments.training.learners.judgement import PairEvaluation, judge, summarize
from graphut.experiments.training.learners.lengths import by_length
from graphut.experiments.training.table import steps_table
from graphut.models import UniversalTransformer
from graphut.models.outputs import Generation
from graphut.sentences import target_labels

_SHOWN = 3


class PairLearner(Learner[Pair, PairTask, UniversalTransformer]):
    """Pairs are learned by an encoder and a decoder, and judged by what is decoded."""

    task_kind = PairTask
    model_kind = UniversalTransformer
    evaluation_kind: ClassVar[type[PairEvaluation]] = PairEvaluation
    generation_kind = GenerationOptions
    judged_with = ("beam_size", "length_penalty")
    from_task = ("source_vocab", "target_vocab")
    examples: ClassVar[str] = "sequences"

    def sizes(self, task: PairTask) -> dict[str, int]:
        """Tokens of the two vocabularies."""
        return {
            "source_vocab": len(task.source_vocabulary),
            "target_vocab": len(task.target_vocabulary),
        }

    def outcome(
        self, model: UniversalTransformer, batch: list[Pair], label_smoothing: float
    ) -> Outcome:
        """How well each target's tokens are predicted from those before them."""
        graph = model.sentence_graph(*zip(*batch, strict=True))
        return graph_outcome(model, graph, label_smoothing)

    def record(
        self,
        model: UniversalTransformer,
        vocabularies: Mapping[str, Vocabulary],
        examples: Sequence[Pair],
        **options: Any,
    ) -> tuple[PairEvaluation, dict[str, Any]]:
        """Decode, and compare; the record has accuracies and steps by length."""
        judgements = judge(model, examples, **options)
        sides = ("source_length", "target_length")
        return summarize(judgements), {f"by_{side}": by_length(judgements, side) for side in sides}

    def show(self, model: UniversalTransformer, task: PairTask) -> Iterator[str]:
        """The outputs for a few sources, with room for the longest target and its `<eos>`."""
        sources = [source for source, _ in task.test[:_SHOWN]]
        longest = max(len(target) for _, target in task.test)
        results = model.generate(sources, max_length=longest + 1)
        for source, result in zip(sources, results, strict=True):
            yield self._answer(task.vocabularies, source, result)

    def generate(
        self,
        model: UniversalTransformer,
        vocabularies: Mapping[str, Vocabulary],
        texts: Sequence[str],
        options: GenerationOptions,
    ) -> Iterator[Said]:
        """The output for each text, and under each token the number of steps it took."""
        sources = [vocabularies["source"].read(text) for text in texts]
        for source, result in generate(model, sources, options):
            ended = len(result.steps) > len(result.tokens)
            cut = "" if ended else f"\ncut off at the max_length of {options.max_length}"
            answer = vocabularies["target"].write(result.tokens)
            yield Said(answer, self._answer(vocabularies, source, result) + cut)

    def read(self, path: str, vocabularies: Mapping[str, Vocabulary]) -> list[Pair]:
        """Pairs in a file: see `graphut.experiments.tasks.Pairs`."""
        return read_pairs(path, vocabularies["source"], vocabularies["target"])

    def _answer(
        self, vocabularies: Mapping[str, Vocabulary], source: Sequence[int], result: Generation
    ) -> str:
        asked, answered = vocabularies["source"], vocabularies["target"]
        output = [*result.tokens, EOS][: len(result.steps)]
        before = steps_table("input", asked.readable(source), result.source_steps)
        after = steps_table("output", answered.readable(output), result.steps)
        return f"{before}\n{after}"


def graph_outcome(
    model: UniversalTransformer, graph: DGLGraph, label_smoothing: float = 0.0
) -> Outcome:
    """What the model makes of a graph from its `sentence_graph`, with targets."""
    output = model(graph)
    labels = target_labels(graph).to(output.logits.device)
    return Outcome(
        prediction=cross_entropy(output.logits.float(), labels, label_smoothing=label_smoothing),
        right=(output.logits.argmax(-1) == labels).sum(),
        labels=labels.numel(),
        ponders={"encoder": output.encoder, "decoder": output.decoder},
    )
