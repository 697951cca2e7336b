"""Learning to go on with a text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import exp, log
from typing import Any, ClassVar

from torch.nn.functional import cross_entropy

from graphut.experiments.tasks import Text, TextTask, Vocabulary
from graphut.experiments.training.learner import Evaluation, Learner, Outcome, Said
from graphut.experiments.training.learners.generation import GenerationOptions, generate
from graphut.experiments.training.learners.text_judgement import (
    Scores,
    TextEvaluation,
    by_surprisal,
    score,
)
from graphut.experiments.training.table import steps_table
from graphut.models import UniversalTransformerLM
from graphut.sentences import EOS

_SHOWN = 2
_PROMPT, _LENGTH = 30, 60  # tokens of what is shown


class TextLearner(Learner[Text, Any, UniversalTransformerLM]):
    """Texts are learned by a language model, every token from those before it.

    A learner of tasks that judge more than that derives from it, with a `judge` and a `show` of
    its own.
    """

    task_kind = TextTask
    model_kind = UniversalTransformerLM
    evaluation_kind: ClassVar[type[Evaluation]] = TextEvaluation
    generation_kind = GenerationOptions
    from_task = ("vocab_size",)
    examples: ClassVar[str] = "texts"

    def sizes(self, task: TextTask) -> dict[str, int]:
        """Tokens of the vocabulary."""
        return {"vocab_size": len(task.vocabulary)}

    def outcome(
        self, model: UniversalTransformerLM, batch: list[Text], label_smoothing: float
    ) -> Outcome:
        """How well every token is predicted."""
        output = model([text.tokens for text in batch], ends=False)
        labels = output.labels
        return Outcome(
            prediction=cross_entropy(output.logits, labels, label_smoothing=label_smoothing),
            right=(output.logits.argmax(-1) == labels).sum(),
            labels=labels.numel(),
            ponders={"decoder": output.ponder},
        )

    def rivals(self, vocabulary: Vocabulary) -> Sequence[int]:
        """Tokens that `judge` asks about in the place of each text's last one."""
        return ()

    def judge(self, scores: Scores, vocabulary: Vocabulary) -> Evaluation:
        """How good the model is that the scores are of."""
        return scores.evaluation()

    def record(
        self,
        model: UniversalTransformerLM,
        vocabularies: Mapping[str, Vocabulary],
        examples: Sequence[Text],
        **options: Any,
    ) -> tuple[Evaluation, dict[str, Any]]:
        """The record has steps by surprisal, and a row for each group."""
        vocabulary = vocabularies["text"]
        scores = score(model, examples, self.rivals(vocabulary))
        nats = scores.evaluation().nats
        groups = [
            {"group": name, "examples": len(part.texts), **self.judge(part, vocabulary).to_dict()}
            for name, part in scores.by_group().items()
        ]
        return self.judge(scores, vocabulary), {
            "tokens": len(scores.nats),
            "perplexity": exp(nats),
            "bits": nats / log(2),
            "by_surprisal": by_surprisal(scores),
            **({"by_group": groups} if groups else {}),
        }

    def show(self, model: UniversalTransformerLM, task: Any) -> Iterator[str]:
        """How the beginnings of a few test texts go on."""
        room: int = model.config.max_length
        prompt = min(_PROMPT, room // 2)
        begun = [text.tokens[:prompt] for text in task.test[:_SHOWN]]
        options = GenerationOptions(max_length=min(_LENGTH, room - prompt), temperature=0.8)
        return (said.shown for said in _continuations(model, task.vocabulary, begun, options))

    def generate(
        self,
        model: UniversalTransformerLM,
        vocabularies: Mapping[str, Vocabulary],
        texts: Sequence[str],
        options: GenerationOptions,
    ) -> Iterator[Said]:
        """Each text and how it goes on, and then its tokens, with the steps of each under it."""
        vocabulary = vocabularies["text"]
        return _continuations(model, vocabulary, [vocabulary.read(text) for text in texts], options)


def _continuations(
    model: UniversalTransformerLM,
    vocabulary: Vocabulary,
    prompts: Sequence[list[int]],
    options: GenerationOptions,
) -> Iterator[Said]:
    for prompt, found in generate(model, prompts, options):
        tokens = prompt + [*found.tokens, EOS][: len(found.steps)]
        steps = found.source_steps + found.steps
        table = steps_table("text", vocabulary.readable(tokens), steps)
        text = vocabulary.write(prompt + found.tokens)
        yield Said(text, f"{text}\n\n{table}")
