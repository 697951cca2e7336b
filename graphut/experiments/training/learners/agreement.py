"""Learning which number a verb has, by learning to go on with a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from graphut.experiments.tasks import Agreement, Vocabulary
from graphut.experiments.tasks.agreement import PLURAL, SINGULAR
from graphut.experiments.training.learner import Evaluation
from graphut.experiments.training.learners.text_judgement import Scores, score
from graphut.experiments.training.learners.texts import TextLearner
from graphut.experiments.training.table import steps_table
from graphut.models import UniversalTransformerLM

_SHOWN = 3


@dataclass(frozen=True)
class AgreementEvaluation(Evaluation):
    """How good a model is on a set of sentences; the more accurate one is the greater.

    Parameters
    ----------
    accuracy : float
        Share of the verbs whose right form is likelier than the wrong one.
    balanced_accuracy : float
        The mean of that share among verbs in the singular and among those in the plural, as far as
        there are any: one half for a model that always says the same.
    nats : float
        Mean surprisal of a token, verbs included.
    steps, verb_steps : float
        Mean steps in which a token, and in which a verb was predicted.
    """

    accuracy: float
    balanced_accuracy: float
    nats: float
    steps: float
    verb_steps: float

    @property
    def rank(self) -> tuple[float, ...]:
        """Accuracy, and then how little a token surprises."""
        return self.accuracy, -self.nats

    def __str__(self) -> str:
        return (
            f"{self.accuracy:.2%} of verbs right ({self.balanced_accuracy:.2%} balanced); mean "
            f"steps {self.steps:.2f}, {self.verb_steps:.2f} before a verb"
        )

    def reached(self, target: float) -> bool:
        """Whether so large a share of the verbs is right."""
        return self.accuracy >= target


class AgreementLearner(TextLearner):
    """A language model is asked at the end of each text which form of the verb is likelier."""

    task_kind = Agreement
    evaluation_kind = AgreementEvaluation
    examples: ClassVar[str] = "sentences"

    def rivals(self, vocabulary: Vocabulary) -> Sequence[int]:
        """The two forms."""
        return vocabulary.encode([SINGULAR, PLURAL])

    def judge(self, scores: Scores, vocabulary: Vocabulary) -> AgreementEvaluation:
        """Compare the two forms."""
        forms = self.rivals(vocabulary)
        wanted = torch.tensor([forms.index(text.tokens[-1]) for text in scores.texts])
        logits = scores.rivals.gather(1, torch.stack([wanted, 1 - wanted], 1))
        right = (logits[:, 0] > logits[:, 1]).double()  # a tie is wrong
        by_form = [right[wanted == form] for form in (0, 1)]
        found = scores.evaluation()
        return AgreementEvaluation(
            accuracy=float(right.mean()),
            balanced_accuracy=float(torch.stack([r.mean() for r in by_form if len(r)]).mean()),
            nats=found.nats,
            steps=found.steps,
            verb_steps=float(scores.steps[scores.last].double().mean()),
        )

    def show(self, model: UniversalTransformerLM, task: Agreement) -> Iterator[str]:
        """A few sentences up to the verb, and how likely its two forms are beside each other."""
        forms = self.rivals(task.vocabulary)
        for text in task.test[:_SHOWN]:
            scores = score(model, [text], forms)
            share = scores.rivals[0].softmax(0)[forms.index(text.tokens[-1])]
            words = task.vocabulary.readable(text.tokens)
            table = steps_table("text", words, scores.steps.tolist())
            yield f"{table}\nright   {share:.1%} for {words[-1]}, against the other form"
