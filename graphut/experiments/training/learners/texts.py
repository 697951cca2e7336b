"""Learning to go on with a text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from graphut.experiments.generation_options import GenerationOptions
from graphut.experiments.tasks import Text, TextTask, Vocabularies, Vocabulary
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
from graphut.models import UniversalTransformerLM
from graphut.models.outputs import LMOutput

_NUM_SHOWN = 2
_PROMPT, _LENGTH = 30, 60  # tokens of what is shown
_BINS = 10
# Of a batch: of the one, 128 MiB in float32.
_MOST_LOGITS, _MOST_TOKENS = 2**25, 2**14


@dataclass(frozen=True, eq=False)
class TextScores:
    """The predictions of a model for texts, and for those N of their tokens that count."""

    texts: list[Text]  # from the shortest to the longest
    text: Tensor  # (N,) int64: the index in `texts` of each token's text, in order
    nats: Tensor  # (N,) float64: the surprisal of each token
    right: Tensor  # (N,) bool: whether the token was the likeliest
    steps: Tensor  # (N,) int64: the steps in which it was predicted
    candidates: Tensor  # (texts, C): logits of some tokens in the position of each text's last one

    @property
    def last(self) -> Tensor:
        """Return the indices of the last tokens of the texts, `(texts,)`."""
        return torch.bincount(self.text, minlength=len(self.texts)).cumsum(0) - 1

    def metrics(self) -> dict[str, float]:
        """Return the means over the tokens."""
        return {
            "nats": float(self.nats.mean()),
            "accuracy": float(self.right.double().mean()),
            "steps": float(self.steps.double().mean()),
        }

    def by_group(self) -> dict[str, TextScores]:
        """Return the scores of each group of texts; none where there are no groups."""
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
            right=self.right[tokens],
            steps=self.steps[tokens],
            candidates=self.candidates[mask],
        )


class TextLearner(Learner[Text, Any, UniversalTransformerLM]):
    """The learner of texts, with a language model: every token from those before it.

    A learner with other metrics derives from it, with `metrics` and `metric_meanings` of its own.
    """

    task_kind = TextTask
    model_kind = UniversalTransformerLM
    generation_kind = GenerationOptions
    from_task = ("vocab_size",)
    most_shown: ClassVar[int | None] = _LENGTH  # tokens of an example to look at; None for all
    example: ClassVar[str] = "text"
    metric_meanings: ClassVar[Mapping[str, str]] = {
        "nats": "mean surprisal of a token, the negative logarithm of its probability",
        "accuracy": "share of the tokens that were the likeliest",
        "steps": "mean steps of a token",
    }
    rank_by: ClassVar[Sequence[str]] = ("log_probability",)
    target_metric: ClassVar[str] = "accuracy"
    summary: ClassVar[str] = (
        "perplexity {perplexity:.3f}, {bits:.4f} bits a token, {accuracy:.2%} of tokens right; "
        "mean steps {steps:.2f}"
    )

    @staticmethod
    def derived(metrics: Mapping[str, Any]) -> dict[str, Any]:
        """Return other forms of the surprisal."""
        nats = metrics["nats"]
        return {"log_probability": -nats, "perplexity": exp(nats), "bits": nats / log(2)}

    def sizes(self, task: TextTask) -> dict[str, int]:
        """Return the tokens of the vocabulary."""
        return {"vocab_size": len(task.vocabulary)}

    def outcome(
        self, model: UniversalTransformerLM, batch: list[Text], label_smoothing: float
    ) -> Outcome:
        """Return the loss of every token."""
        output = model([text.tokens for text in batch], ends=False)
        return Outcome.of(output.logits, output.labels, label_smoothing, decoder=output.ponder)

    def counts(self, model: UniversalTransformerLM, batch: list[Text]) -> dict[str, int]:
        """Count the tokens, and their nodes."""
        lengths = [len(text.tokens) for text in batch]
        return {"loss": sum(lengths), "decoder": count_nodes(model.topology, lengths)}

    def candidates(self, vocabulary: Vocabulary) -> Sequence[int]:
        """Return the tokens whose logits `metrics` needs in the position of the last token."""
        return ()

    def metrics(self, scores: TextScores, vocabulary: Vocabulary) -> dict[str, float]:
        """Return the metrics of a model that has these scores."""
        return scores.metrics()

    def evaluate_in_detail(
        self,
        model: UniversalTransformerLM,
        vocabularies: Vocabularies,
        examples: Sequence[Text],
        **options: Any,
    ) -> tuple[Evaluation, dict[str, Any]]:
        """Score every token; the details are steps by surprisal, and a row for each group."""
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

    def show(self, model: UniversalTransformerLM, task: Any) -> Iterator[str]:
        """Yield the beginnings of a few test texts, and how they go on."""
        longest: int = model.config.max_length
        length = min(_PROMPT, longest // 2)
        prompts = [text.tokens[:length] for text in task.test[:_NUM_SHOWN]]
        options = GenerationOptions(max_length=min(_LENGTH, longest - length), temperature=0.8)
        return (found.with_steps for found in _continue(model, task.vocabulary, prompts, options))

    def generate(
        self,
        model: UniversalTransformerLM,
        vocabularies: Vocabularies,
        texts: Sequence[str],
        options: GenerationOptions,
    ) -> Iterator[GeneratedText]:
        """Yield each text and how it goes on, and then its tokens, with the steps of each."""
        vocabulary = vocabularies["text"]
        return _continue(model, vocabulary, [vocabulary.read(text) for text in texts], options)

    @torch.no_grad()
    def answer(self, model: UniversalTransformerLM, task: Any, example: Text) -> ExampleAnswer:
        """Return what is predicted of a text, or of its beginning where it is judged by token."""
        vocabulary, tokens = task.vocabulary, example.tokens[: self.most_shown]
        with model.evaluating():
            output = model([tokens], ends=False, get_attention=True)
        part = decoder_part(vocabulary, tokens, output.ponder)
        return ExampleAnswer(*self.verdict(output, vocabulary), [part])

    def verdict(self, output: LMOutput, vocabulary: Vocabulary) -> tuple[str, str, bool | None]:
        """Return the answer, the right answer and if they are the same, for one text."""
        right = int((output.logits.argmax(-1) == output.labels).sum())
        return f"{right} of {len(output.labels)} tokens were the likeliest", "", None

    def look_inside(
        self,
        model: UniversalTransformerLM,
        vocabularies: Vocabularies,
        text: str,
        options: GenerationOptions,
    ) -> tuple[str, list[PonderedPart]]:
        """Return how a text goes on, and how the model pondered over all of it."""
        vocabulary = vocabularies["text"]
        prompt = vocabulary.read(text)
        [result] = model.generate([prompt], **options.for_model(), get_attention=True)
        assert result.decoder is not None
        part = decoder_part(vocabulary, prompt + written_tokens(result), result.decoder)
        return vocabulary.write(result.tokens), [part]

    def read(
        self, path: str, vocabularies: Vocabularies, config: Any, task: TextTask
    ) -> list[Text]:
        """Return the texts in a file, as the task reads them."""
        return task.read(path, vocabularies["text"])


def _continue(
    model: UniversalTransformerLM,
    vocabulary: Vocabulary,
    prompts: Sequence[list[int]],
    options: GenerationOptions,
) -> Iterator[GeneratedText]:
    for prompt, found in generate(model, prompts, options):
        tokens = prompt + written_tokens(found)
        steps = found.source_steps + found.steps
        table = steps_table("text", vocabulary.readable(tokens), steps)
        text = vocabulary.write(prompt + found.tokens)
        yield GeneratedText(text, f"{text}\n\n{table}")


def score_texts(
    model: UniversalTransformerLM, texts: Sequence[Text], candidates: Sequence[int] = ()
) -> TextScores:
    """Run a model over texts, each token with those before it fed in.

    The logits of the candidates are kept in the position of each text's last token.
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
        right = output.logits.argmax(-1) == output.labels
        last = output.logits[output.lengths.cumsum(0) - 1][:, list(candidates)].float()
        by_token = (batch[0] + text, nats.cpu(), right.cpu(), output.steps.cpu())
        return (*(column[counts] for column in by_token), last.cpu())

    with torch.no_grad(), model.evaluating():
        parts = score_batches(score, range(len(ordered)), size, lambda index: index, "texts")
    return TextScores(ordered, *(torch.cat(column) for column in zip(*parts, strict=True)))


def by_surprisal(scores: TextScores) -> list[dict[str, Any]]:
    """Return mean steps in ten parts of the tokens, from the least surprising to the most."""
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
