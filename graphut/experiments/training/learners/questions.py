"""Learning to answer questions about facts, with one answer out of a few."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from math import exp
from typing import Any, ClassVar

import torch
from torch.nn.functional import cross_entropy

from graphut.experiments.tasks import Question, QuestionTask, Vocabulary
from graphut.experiments.tasks.files import read_text
from graphut.experiments.tasks.stories import StoryEncoder, parse_stories, sentences
from graphut.experiments.training.learner import Learner, Outcome, Said
from graphut.experiments.training.learners.question_judgement import (
    QuestionEvaluation,
    by,
    document,
    judge,
    summarize,
)
from graphut.experiments.training.table import steps_list
from graphut.models import UniversalTransformerClassifier
from graphut.models.outputs import ClassifierPrediction

_SHOWN = 3


class QuestionLearner(Learner[Question, QuestionTask, UniversalTransformerClassifier]):
    """Questions are learned by a classifier of sentences, which reads the question last."""

    task_kind = QuestionTask
    model_kind = UniversalTransformerClassifier
    evaluation_kind = QuestionEvaluation
    from_task = ("vocab_size", "classes", "longest_sentence")
    examples: ClassVar[str] = "questions"

    def sizes(self, task: QuestionTask) -> dict[str, int]:
        """Words and answers, and how many words the longest sentence has."""
        documents = map(document, chain(task.train(0, 0), task.validation, task.test))
        return {
            "vocab_size": len(task.vocabulary),
            "classes": len(task.answers.symbols),
            "longest_sentence": max(map(len, chain.from_iterable(documents))),
        }

    def outcome(
        self,
        model: UniversalTransformerClassifier,
        batch: list[Question],
        label_smoothing: float,
    ) -> Outcome:
        """How well the answers are predicted."""
        output = model([document(question) for question in batch])
        labels = torch.tensor([question.answer for question in batch], device=model.device)
        return Outcome(
            prediction=cross_entropy(output.logits, labels, label_smoothing=label_smoothing),
            right=(output.logits.argmax(-1) == labels).sum(),
            labels=len(batch),
            ponders={"encoder": output.ponder},
        )

    def record(
        self,
        model: UniversalTransformerClassifier,
        vocabularies: Mapping[str, Vocabulary],
        examples: Sequence[Question],
        **options: Any,
    ) -> tuple[QuestionEvaluation, dict[str, Any]]:
        """The record has errors and steps by group, and by number of supporting facts."""
        judgements = judge(model, examples)
        groupings = ("group", "supporting")
        return summarize(judgements), {f"by_{what}": by(judgements, what) for what in groupings}

    def show(self, model: UniversalTransformerClassifier, task: QuestionTask) -> Iterator[str]:
        """The answers to a few questions, beside the right ones."""
        for question in task.test[:_SHOWN]:
            text = [task.vocabulary.write(sentence) for sentence in document(question)]
            [found] = model.predict([document(question)])
            right = task.answers.symbols[question.answer]
            yield f"{_answered(text, found, task.answers)}; right: {right}"

    def generate(
        self,
        model: UniversalTransformerClassifier,
        vocabularies: Mapping[str, Vocabulary],
        texts: Sequence[str],
        options: Any,
    ) -> Iterator[Said]:
        """The answer to each text, whose last sentence is the question, and steps of each."""
        encode = StoryEncoder(vocabularies["text"], vocabularies["answer"])
        for text in texts:
            parts = sentences(text)
            if not parts:
                raise ValueError(f"{text!r} has no sentence: give facts, and then a question")
            [found] = model.predict([[encode.sentence(part) for part in parts]])
            answers = vocabularies["answer"]
            yield Said(answers.symbols[found.label], _answered(parts, found, answers))

    def read(self, path: str, vocabularies: Mapping[str, Vocabulary]) -> list[Question]:
        """Questions in a file that is like those of bAbI."""
        encode = StoryEncoder(vocabularies["text"], vocabularies["answer"])
        try:
            return [encode(asked) for asked in parse_stories(read_text(path))]
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None


def _answered(text: Sequence[str], found: ClassifierPrediction, answers: Vocabulary) -> str:
    """Sentences with their steps, and the answer."""
    share = exp(found.log_probabilities[found.label])
    return f"{steps_list(text, found.steps)}\nanswer  {answers.symbols[found.label]} ({share:.1%})"
