"""Training and evaluation of models that point to the word of a text that comes next."""

from collections.abc import Mapping, Sequence
from itertools import chain, compress
from math import log
from statistics import fmean
from typing import ClassVar

import torch

from graphut.experiments.tasks import Passage, PassageTask
from graphut.experiments.training.learner import Outcome, Reading, ReadingLearner, count_nodes
from graphut.models import UniversalTransformerPointer
from graphut.models.outputs import PointerOutput, PointerPrediction
from graphut.models.pointer import likeliest, log_probability

_LEAST = 1e-12  # lower bound of a probability under a logarithm


class PassageLearner(ReadingLearner[Passage, PassageTask, UniversalTransformerPointer]):
    """Trains models that predict the word after a text, by pointing to one of the text's words."""

    model_kind = UniversalTransformerPointer
    label = "input"
    example: ClassVar[str] = "passage"
    metric_meanings: ClassVar[Mapping[str, str]] = {
        "accuracy": "share of correct answers; a passage without its answer counts as wrong",
        "answerable_accuracy": "accuracy on the passages that contain their answer; 0 if none does",
        "log_probability": "mean log-probability of the answers in their passages, in nats",
        "answerable": "share of the passages that contain their answer",
        "steps": "mean steps of a word",
        "last_steps": "mean steps of the last word of a passage, which predicts the answer",
    }
    rank_by = ("accuracy", "log_probability")
    target_metric = "answerable_accuracy"
    summary = (
        "accuracy {accuracy:.2%} ({answerable_accuracy:.2%} of the answerable), steps "
        "{steps:.2f}, last word {last_steps:.2f}"
    )

    @staticmethod
    def inputs(example: Passage, /) -> list[int]:
        return example.context

    def outcome(self, batch: list[Passage], label_smoothing: float) -> Outcome:
        """Return the mean loss of the passages that contain their answer, the next word.

        Label smoothing spreads probability evenly over the words of the passage.
        """
        output = self.model([*map(self.inputs, batch)])
        answers = torch.tensor([passage.answer for passage in batch], device=self.model.device)
        log_likely = log_probability(output, answers)
        has_answer = torch.tensor([passage.answer in passage.context for passage in batch])
        answerable = int(has_answer.sum())
        sharp = torch.where(log_likely.isfinite(), log_likely, 0.0).sum() / max(answerable, 1)
        each = torch.repeat_interleave(has_answer / output.lengths, output.lengths)
        even = (output.scores * each.to(self.model.device)).sum() / max(answerable, 1)
        return Outcome(
            loss=-(1 - label_smoothing) * sharp - label_smoothing * even,
            correct=(likeliest(output)[0] == answers).sum(),
            labels=len(batch),
            learned=answerable,
            ponders={"encoder": output.ponder},
        )

    def counts(self, batch: list[Passage]) -> dict[str, int]:
        lengths = [len(passage.context) for passage in batch]
        answerable = sum(passage.answer in passage.context for passage in batch)
        return {"loss": answerable, "encoder": count_nodes(self.model.topology, lengths)}

    @staticmethod
    def metrics(answered: Sequence[tuple[Passage, PointerPrediction]], /) -> dict[str, float]:
        correct, logs = [], []  # of the answerable passages
        for (words, answer), prediction in answered:
            if answer in words:
                likely = sum(compress(prediction.probabilities, [word == answer for word in words]))
                logs.append(log(max(likely, _LEAST)))
                correct.append(prediction.word == answer)
        return {
            "accuracy": sum(correct) / len(answered),
            "answerable_accuracy": fmean(correct) if correct else 0.0,
            "log_probability": fmean(logs) if logs else 0.0,
            "answerable": len(correct) / len(answered),
            "steps": fmean(chain.from_iterable(prediction.steps for _, prediction in answered)),
            "last_steps": fmean(prediction.steps[-1] for _, prediction in answered),
        }

    def parse(self, text: str) -> Reading:
        """Split a text into words, or into letters if it has no spaces."""
        names, tokens = text.split(), self.vocabulary.read(text)
        if not tokens:
            raise ValueError(f"the text {text!r} is empty: give at least one symbol")
        return Reading(
            names if len(names) == len(tokens) else self.vocabulary.readable(tokens), tokens
        )

    def reading(self, example: Passage) -> tuple[Reading, str]:
        *words, answer = self.vocabulary.readable([*example.context, example.answer])
        return Reading(words, example.context), answer

    def likeliest(self, output: PointerOutput, reading: Reading) -> tuple[str, float]:
        word, likely = (each.item() for each in likeliest(output))
        return reading.names[reading.tokens.index(word)], likely
