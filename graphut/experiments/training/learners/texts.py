"""The learner of language models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from graphut.experiments.tasks import Text, TextTask, Vocabularies, Vocabulary
from graphut.experiments.training.evaluation import Evaluation, score_batches
from graphut.experiments.training.generation import (
    Answer,
    GenerationOptions,
    decoder_part,
    generate,
    written_tokens,
)
from graphut.experiments.training.learner import Learner, Outcome, count_nodes
from graphut.models import UniversalTransformerLM
from graphut.models.outputs import LMOutput

_LENGTH = 60
_BINS = 10
# Limits of a batch; the logits take 128 MiB in float32.
_MOST_LOGITS, _MOST_TOKENS = 2**25, 2**14


@dataclass(frozen=True, eq=False)
class TextScores:
    """The scores of a model on N tokens: all tokens of some texts except their context."""

    texts: list[Text]  # from the shortest to the longest
    text: Tensor  # (N,) int64: index of the text of each token, in order
    nats: Tensor  # (N,) float64: surprisal of each token
    correct: Tensor  # (N,) bool: whether the token was the likeliest
    steps: Tensor  # (N,) int64: steps of the node that predicted the token
    candidates: Tensor  # (texts, C): logits of C chosen tokens as the last token of each text

    @property
    def last(self) -> Tensor:
        """Return the index of the last token of each text, `(texts,)`."""
        return torch.bincount(self.text, minlength=len(self.texts)).cumsum(0) - 1

    def metrics(self) -> dict[str, float]:
        """Return the means over all tokens."""
        return {
            "nats": float(self.nats.mean()),
            "accuracy": float(self.correct.double().mean()),
            "steps": float(self.steps.double().mean()),
        }

    def by_group(self) -> dict[str, TextScores]:
        """Return the scores of each group of texts; texts without a group are left out."""
        names = [text.group for text in self.texts]
        return {
            name: self._select([own == name for own in names]) for name in sorted({*names} - {""})
        }

    def _select(self, chosen: list[bool]) -> TextScores:
        mask = torch.tensor(chosen)
        tokens = mask[self.text]
        return TextScores(
            texts=[text for text, stays in zip(self.texts, chosen, strict=True) if stays],
            text=(mask.cumsum(0) - 1)[self.text[tokens]],
            nats=self.nats[tokens],
            correct=self.correct[tokens],
            steps=self.steps[tokens],
            candidates=self.candidates[mask],
        )


class TextLearner(Learner[Text, Any, UniversalTransformerLM]):
    """The learner of texts with a language model; subclasses have other metrics."""

    task_kind = TextTask
    model_kind = UniversalTransformerLM
    generation_kind = GenerationOptions
    from_task = ("vocab_size",)
    most_shown: ClassVar[int | None] = _LENGTH  # tokens of an example in `answers`; None for all
    example: ClassVar[str] = "text"
    metric_meanings: ClassVar[Mapping[str, str]] = {
        "nats": "mean surprisal of a token (negative log-probability, in nats)",
        "accuracy": "share of tokens that the model found likeliest",
        "steps": "mean steps of a token",
    }
    rank_by: ClassVar[Sequence[str]] = ("log_probability",)
    target_metric: ClassVar[str] = "accuracy"
    summary: ClassVar[str] = (
        "perplexity {perplexity:.3f}, {bits:.4f} bits per token, accuracy {accuracy:.2%}, "
        "steps {steps:.2f}"
    )

    @staticmethod
    def derived(metrics: Mapping[str, Any]) -> dict[str, Any]:
        """Return the surprisal as log-probability, as perplexity and in bits."""
        nats = metrics["nats"]
        return {"log_probability": -nats, "perplexity": exp(nats), "bits": nats / log(2)}

    def sizes(self, task: TextTask) -> dict[str, int]:
        """Return the size of the vocabulary."""
        return {"vocab_size": len(task.vocabulary)}

    def outcome(
        self, model: UniversalTransformerLM, batch: list[Text], label_smoothing: float
    ) -> Outcome:
        """Return the loss of all tokens."""
        output = model([text.tokens for text in batch], ends=False)
        return Outcome.of(output.logits, output.labels, label_smoothing, decoder=output.ponder)

    def counts(self, model: UniversalTransformerLM, batch: list[Text]) -> dict[str, int]:
        """Count the tokens and the nodes."""
        lengths = [len(text.tokens) for text in batch]
        return {"loss": sum(lengths), "decoder": count_nodes(model.topology, lengths)}

    def candidates(self, vocabulary: Vocabulary) -> Sequence[int]:
        """Return the tokens whose logits `metrics` needs, as the last token of a text."""
        return ()

    def metrics(self, scores: TextScores, vocabulary: Vocabulary) -> dict[str, float]:
        """Return the metrics of these scores."""
        return scores.metrics()

    def evaluate_in_detail(
        self,
        model: UniversalTransformerLM,
        vocabularies: Vocabularies,
        examples: Sequence[Text],
        **options: Any,
    ) -> tuple[Evaluation, dict[str, Any]]:
        """Score all tokens; the details are steps by surprisal, and metrics by group."""
        vocabulary = vocabularies["text"]
        scores = score_texts(model, examples, self.candidates(vocabulary))
        forms = TextLearner.derived(scores.metrics())
        groups = [
            {"group": name, "examples": len(part.texts), **self.metrics(part, vocabulary)}
            for name, part in scores.by_group().items()
        ]
        return self.evaluation(**self.metrics(scores, vocabulary)), {
            "tokens": len(scores.nats),
            "perplexity": forms["perplexity"],
            "bits": forms["bits"],
            "by_surprisal": by_surprisal(scores),
            **({"by_group": groups} if groups else {}),
        }

    def generate(
        self,
        model: UniversalTransformerLM,
        vocabularies: Vocabularies,
        texts: Sequence[str],
        options: GenerationOptions,
        *,
        get_attention: bool = False,
    ) -> Iterator[Answer]:
        """Yield each text with its continuation."""
        vocabulary = vocabularies["text"]
        prompts = [vocabulary.read(text) for text in texts]
        for prompt, found in generate(model, prompts, options, get_attention=get_attention):
            tokens, steps = prompt + written_tokens(found), found.source_steps + found.steps
            part = decoder_part("text", vocabulary, tokens, steps, found.decoder)
            text = vocabulary.write(prompt + found.tokens)
            yield Answer(text, [part], note=f"\n{text}")

    def answers(
        self, model: UniversalTransformerLM, task: Any, examples: Sequence[Text]
    ) -> list[Answer]:
        """Return the predictions for texts, or for the first `most_shown` tokens of texts."""
        return [self._answer(model, task.vocabulary, example) for example in examples]

    @torch.no_grad()
    def _answer(
        self, model: UniversalTransformerLM, vocabulary: Vocabulary, example: Text
    ) -> Answer:
        tokens = example.tokens[: self.most_shown]
        with model.evaluating():
            output = model([tokens], ends=False, get_attention=True)
        steps = output.steps.tolist()
        part = decoder_part("text", vocabulary, tokens, steps, output.ponder)
        answer, correct, is_correct = self.verdict(output, vocabulary)
        note = f"answer  {answer}" + (f"; correct: {correct}" if correct else "")
        return Answer(answer, [part], correct, is_correct, note)

    def verdict(self, output: LMOutput, vocabulary: Vocabulary) -> tuple[str, str, bool | None]:
        """Return the answer for one text, the correct answer, and whether they are equal."""
        right = int((output.logits.argmax(-1) == output.labels).sum())
        return f"{right} of {len(output.labels)} tokens were the likeliest", "", None

    def read(
        self, path: str, vocabularies: Vocabularies, config: Any, task: TextTask
    ) -> list[Text]:
        """Read the texts in a file, as the task does."""
        return task.read(path, vocabularies["text"])


def score_texts(
    model: UniversalTransformerLM, texts: Sequence[Text], candidates: Sequence[int] = ()
) -> TextScores:
    """Score the tokens of texts with teacher forcing.

    The logits of the candidates are kept at the position of each text's last token.
    """
    most = min(_MOST_LOGITS // model.config.vocab_size, _MOST_TOKENS)
    size = max(most // max((len(text.tokens) for text in texts), default=1), 1)
    ordered = sorted(texts, key=lambda text: len(text.tokens))

    def score(batch: list[int]) -> tuple[Tensor, ...]:
        texts = [ordered[index] for index in batch]
        output = model([text.tokens for text in texts], ends=False)
        position = torch.cat([torch.arange(int(length)) for length in output.lengths])
        text = torch.repeat_interleave(output.lengths)
        counts = position >= torch.tensor([text.context for text in texts])[text]
        nats = cross_entropy(output.logits.float(), output.labels, reduction="none").double()
        correct = output.logits.argmax(-1) == output.labels
        last = output.logits[output.lengths.cumsum(0) - 1][:, list(candidates)].float()
        by_token = (batch[0] + text, nats.cpu(), correct.cpu(), output.steps.cpu())
        return (*(column[counts] for column in by_token), last.cpu())

    with torch.no_grad(), model.evaluating():
        parts = score_batches(score, range(len(ordered)), size, lambda index: index, "texts")
    return TextScores(ordered, *(torch.cat(column) for column in zip(*parts, strict=True)))


def by_surprisal(scores: TextScores) -> list[dict[str, Any]]:
    """Return the mean steps for ten equal parts of the tokens, sorted by surprisal."""
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
