"""Training and evaluation of language models."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from math import exp, log
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from graphut.experiments.tasks import Text, TextTask
from graphut.experiments.training.config import GenerationOptions
from graphut.experiments.training.evaluation import Evaluation, rows_by, score_batches
from graphut.experiments.training.generation import Answer, decoder_part, generate, written_tokens
from graphut.experiments.training.learners import Learner, Outcome
from graphut.models import UniversalTransformerLM
from graphut.models.outputs import LMOutput

_LENGTH = 60
# Limits of a batch; the logits take 128 MiB in float32.
_MOST_LOGITS, _MOST_TOKENS = 2**25, 2**14


class TextScore(NamedTuple):
    """The scores of a model for the N tokens of a text after its first `text.context` tokens."""

    text: Text
    nats: Tensor  # (N,) float64: surprisal of each token
    correct: Tensor  # (N,) bool: whether the token was the likeliest
    steps: Tensor  # (N,) int64: steps of the node that predicted the token
    candidates: Tensor  # (C,): logits of C chosen tokens as the last token


TextScores = Sequence[TextScore]


class TextLearner(Learner[Text, Any, UniversalTransformerLM]):
    """Trains and evaluates language models on texts; subclasses compute other metrics."""

    model_kind = UniversalTransformerLM
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
        """Convert the mean surprisal `nats` to a log-probability, a perplexity, and bits."""
        nats = metrics["nats"]
        perplexity = exp(min(nats, 700.0))  # from 710 on, as of a diverged model, exp overflows
        return {"log_probability": -nats, "perplexity": perplexity, "bits": nats / log(2)}

    def outcome(self, batch: list[Text], label_smoothing: float) -> Outcome:
        output = self.model([text.tokens for text in batch], ends=False)
        return Outcome.of(output.logits, output.labels, label_smoothing, decoder=output.ponder)

    @property
    def candidates(self) -> Sequence[int]:
        """Token ids that `metrics` compares as the last token of a text; by default none."""
        return ()

    def metrics(self, scores: TextScores) -> dict[str, float]:
        """Compute the metrics that `metric_meanings` lists from the scores of texts."""
        return token_metrics(scores)

    def evaluate_in_detail(
        self, examples: Sequence[Text], **options: Any
    ) -> tuple[Evaluation, dict[str, Any]]:
        """Return metrics, and details: perplexity, bits, and metrics by group."""
        scores = score_texts(self.model, examples, self.candidates)
        forms = TextLearner.derived(token_metrics(scores))
        details = {
            "tokens": sum(len(score.nats) for score in scores),
            "perplexity": forms["perplexity"],
            "bits": forms["bits"],
        }
        if named := [score for score in scores if score.text.group]:
            details["by_group"] = rows_by("group", named, lambda x: x.text.group, self.metrics)
        return self.evaluation(**self.metrics(scores)), details

    def parse(self, text: str) -> list[int]:
        return self.model.encode(text)

    def generate(
        self, texts: Sequence[str], options: GenerationOptions, *, get_attention: bool = False
    ) -> Iterator[Answer]:
        prompts = [self.parse(text) for text in texts]
        for prompt, result in generate(self.model, prompts, options, get_attention=get_attention):
            tokens, steps = prompt + written_tokens(result), result.source_steps + result.steps
            part = decoder_part("text", self.vocabulary, tokens, steps, result.decoder)
            text = self.model.text_of(prompt, result)
            yield Answer(text, [part], note=f"\n{text}")

    @torch.no_grad()
    def answer(self, example: Text) -> Answer:
        """Return the predictions for the first `most_shown` tokens of a text."""
        tokens = example.tokens[: self.most_shown]
        with self.model.evaluating():
            output = self.model([tokens], ends=False, get_attention=True)
        part = decoder_part("text", self.vocabulary, tokens, output.steps.tolist(), output.ponder)
        answer, correct, is_correct = self.verdict(output)
        note = f"answer  {answer}" + (f"; correct: {correct}" if correct else "")
        score = float((output.logits.argmax(-1) == output.labels).double().mean())
        return Answer(answer, [part], correct, is_correct, note, score)

    def verdict(self, output: LMOutput) -> tuple[str, str, bool | None]:
        """Return the predicted answer, the correct answer or "", and whether they are equal."""
        correct = int((output.logits.argmax(-1) == output.labels).sum())
        return f"{correct} of {len(output.labels)} tokens predicted correctly", "", None

    def read(self, path: str, task: TextTask) -> list[Text]:
        return task.read(path, self.vocabulary)


def score_texts(
    model: UniversalTransformerLM, texts: Sequence[Text], candidates: Sequence[int] = ()
) -> list[TextScore]:
    """Return the scores of texts, shortest first; `candidates` are ids of possible last tokens."""
    most = min(_MOST_LOGITS // model.config.vocab_size, _MOST_TOKENS)
    size = max(most // max((len(text.tokens) for text in texts), default=1), 1)

    def score(batch: list[Text]) -> list[TextScore]:
        output = model([text.tokens for text in batch], ends=False)
        nats = cross_entropy(output.logits.float(), output.labels, reduction="none").double()
        correct = output.logits.argmax(-1) == output.labels
        last = output.logits[output.lengths.cumsum(0) - 1][:, list(candidates)].float()
        columns = (x.cpu().split(output.lengths.tolist()) for x in (nats, correct, output.steps))
        rows = zip(batch, *columns, last.cpu(), strict=True)
        return [  # copies, because each view would be sent with the whole batch
            TextScore._make([text, *(x[text.context :].clone() for x in tokens), logits.clone()])
            for text, *tokens, logits in rows
        ]

    with torch.no_grad(), model.evaluating():
        parts = score_batches(score, texts, size, lambda text: len(text.tokens))
    return [*chain.from_iterable(parts)]


def joined(scores: TextScores, name: str) -> Tensor:
    """Return one field of the scores, such as "nats", for the tokens of all texts."""
    return torch.cat([getattr(score, name) for score in scores])


def token_metrics(scores: TextScores) -> dict[str, float]:
    """Return the mean surprisal, accuracy and steps over the tokens of all texts."""
    names = {"nats": "nats", "accuracy": "correct", "steps": "steps"}
    return {metric: float(joined(scores, name).double().mean()) for metric, name in names.items()}
