"""Training and evaluation of classifiers that answer a question about a list of facts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import exp
from statistics import fmean
from typing import Any, ClassVar

import torch
from torch.nn.functional import cross_entropy

from graphut._files import reraise_for_file
from graphut.experiments.tasks import Question, QuestionTask
from graphut.experiments.tasks.babi import parse_stories, sentences, words
from graphut.experiments.tasks.files import read_text
from graphut.experiments.training.evaluation import grouped, rows_by
from graphut.experiments.training.learner import Outcome, Reading, ReadingLearner, count_nodes
from graphut.models import UniversalTransformerClassifier
from graphut.models.outputs import ClassifierOutput, ClassifierPrediction

FAILED = 0.05
"""Error above which a task of bAbI has failed (arXiv 1502.05698, section 5)."""

Answered = tuple[Question, ClassifierPrediction]
"""A question and the prediction of its answer."""


class QuestionLearner(ReadingLearner[Question, QuestionTask, UniversalTransformerClassifier]):
    """Trains classifiers that read facts (sentences), and then a question about them."""

    model_kind = UniversalTransformerClassifier
    label = ""
    example: ClassVar[str] = "question"
    metric_meanings: ClassVar[Mapping[str, str]] = {
        "accuracy": "mean over the groups of the share of correct answers",
        "log_probability": "mean log-probability of the correct answers, in nats",
        "groups": "number of groups",
        "failed": "number of groups with more than 5% wrong answers",
        "steps": "mean steps of a sentence, questions included",
        "question_steps": "mean steps of a question",
    }
    rank_by = ("accuracy", "log_probability")
    # The geometric mean of probabilities: the accuracy over 100 questions soon reaches 1.
    target_metric = "probability"
    summary = (
        "error {error:.2%}{failures}, steps {steps:.2f} per sentence, {question_steps:.2f} per "
        "question"
    )

    @staticmethod
    def derived(metrics: Mapping[str, Any]) -> dict[str, Any]:
        groups, failed = metrics["groups"], metrics["failed"]
        return {
            "error": 1 - metrics["accuracy"],
            "probability": exp(metrics["log_probability"]),
            "failures": f", {failed} of {groups} tasks failed" if groups > 1 else "",
        }

    @staticmethod
    def inputs(example: Question, /) -> list[list[int]]:
        return [*example.facts, example.question]

    @classmethod
    def sizes(cls, task: QuestionTask) -> dict[str, int]:
        documents = map(cls.inputs, chain(task.train(0, 0), task.validation, task.test))
        return {
            "vocab_size": len(task.vocabulary),
            "classes": len(task.answers.symbols),
            "longest_sentence": max(map(len, chain.from_iterable(documents))),
        }

    def outcome(self, batch: list[Question], label_smoothing: float) -> Outcome:
        """Return the loss of final predictions, plus `step_loss_weight` times that of all steps.

        The latter is the cross-entropy of the predictions after each step of a question, summed
        over steps, divided by `max_steps`, and averaged over questions.
        """
        weight = self.model.config.step_loss_weight
        output = self.model([*map(self.inputs, batch)], get_steps=weight > 0)
        labels = torch.tensor([question.answer for question in batch], device=self.model.device)
        outcome = Outcome.of(output.logits, labels, label_smoothing, encoder=output.ponder)
        if output.answers is None:
            return outcome
        each = [
            cross_entropy(logits, labels[rows], label_smoothing=label_smoothing, reduction="sum")
            for rows, logits in output.answers
        ]
        by_step = torch.stack(each).sum() / (len(labels) * self.model.max_steps)
        return replace(outcome, loss=outcome.loss + weight * by_step)

    def counts(self, batch: list[Question]) -> dict[str, int]:
        lengths = [len(self.inputs(question)) for question in batch]
        return {"loss": len(batch), "encoder": count_nodes(self.model.topology, lengths)}

    @staticmethod
    def metrics(answered: Sequence[Answered], /) -> dict[str, Any]:
        groups = grouped(answered, lambda each: each[0].group).values()
        likely = [prediction.log_probabilities[q.answer] for q, prediction in answered]
        return {
            "accuracy": fmean(fmean(p.label == q.answer for q, p in group) for group in groups),
            "log_probability": fmean(likely),
            "groups": len(groups),
            "failed": sum(_error(group) > FAILED for group in groups),
            **_steps(answered),
        }

    @staticmethod
    def details(answered: Sequence[Answered], /) -> dict[str, Any]:
        keys = {"group": lambda x: x[0].group, "supporting": lambda x: len(x[0].supporting)}

        def metrics(group: Sequence[Answered]) -> dict[str, float]:
            return {"error": _error(group), **_steps(group)}

        return {f"by_{k}": rows_by(k, answered, keys[k], metrics, "questions") for k in keys}

    def parse(self, text: str) -> Reading:
        """Divide a text into sentences; the last one is the question."""
        parts = sentences(text)
        if not parts:
            raise ValueError(f"{text!r} has no sentence: give facts, and then a question")
        return Reading(parts, [self.vocabulary.encode(words(part)) for part in parts])

    def reading(self, example: Question) -> tuple[Reading, str]:
        names = [self.vocabulary.write(sentence) for sentence in self.inputs(example)]
        answer = self.vocabularies["answer"].symbols[example.answer]
        return Reading(names, self.inputs(example)), answer

    def likeliest(self, output: ClassifierOutput, reading: Reading) -> tuple[str, float]:
        best = int(output.logits.argmax())
        likely = output.logits[0].float().log_softmax(-1)
        return self.vocabularies["answer"].symbols[best], likely[best].item()

    def read(self, path: str, task: QuestionTask) -> list[Question]:
        config, questions = self.model.config, []

        def encode(sentence: str) -> list[int]:
            return self.vocabulary.encode(words(sentence))

        with reraise_for_file(path, ""):
            for question in parse_stories(read_text(path)):
                shortened = question.with_last_facts(task.longest_story)
                questions.append(shortened.encode(encode, self.vocabularies["answer"]))
                sizes = [len(sentence) for sentence in self.inputs(questions[-1])]
                if len(sizes) > config.max_length or max(sizes) > config.longest_sentence:
                    raise ValueError(
                        f"{question.question!r} has {len(sizes)} sentences of at most {max(sizes)} "
                        f"words, but the model takes {config.max_length} sentences of at most "
                        f"{config.longest_sentence} words: shorten it"
                    )
        return questions


def _error(answered: Sequence[Answered]) -> float:
    return fmean(prediction.label != question.answer for question, prediction in answered)


def _steps(answered: Sequence[Answered]) -> dict[str, float]:
    """Return the mean steps of all sentences (as in arXiv 1807.03819), and of the questions."""
    return {
        "steps": fmean(chain.from_iterable(prediction.steps for _, prediction in answered)),
        "question_steps": fmean(prediction.steps[-1] for _, prediction in answered),
    }
