"""Small tasks of questions and of passages, drawn at random."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from graphut.experiments.tasks import Passage, PassageTask, Question, QuestionTask, Vocabulary

NAMES, PLACES = ["john", "mary"], ["garden", "hall", "kitchen"]


class Drawn:
    """A task whose sets are drawn at random."""

    def train(self, seed: int, epoch: int) -> list[Any]:
        return self._draw(Random(seed * 1000 + epoch + 1), 64)

    @property
    def validation(self) -> list[Any]:
        return self._draw(Random(-1), 40)

    @property
    def test(self) -> list[Any]:
        return self._draw(Random(-2), 40)

    def _draw(self, random: Random, count: int) -> list[Any]:
        raise NotImplementedError


@dataclass(frozen=True)
class Whereabouts(Drawn, QuestionTask):
    """Questions about where one of two people went; the person is the group."""

    name = "whereabouts-of-tests"
    vocabulary = Vocabulary(["?", "is", "went", "where", *NAMES, *PLACES])  # type: ignore[assignment]
    answers = Vocabulary(PLACES)  # type: ignore[assignment]

    def _draw(self, random: Random, count: int) -> list[Question]:
        found = []
        for _ in range(count):
            places = [random.choice(PLACES) for _ in NAMES]
            facts = [f"{who} went {where}" for who, where in zip(NAMES, places, strict=True)]
            which = random.randrange(len(NAMES))
            found.append(
                Question(
                    facts=[self.vocabulary.read(fact) for fact in facts],
                    question=self.vocabulary.read(f"where is {NAMES[which]} ?"),
                    answer=PLACES.index(places[which]),
                    supporting=(which,),
                    group=NAMES[which],
                )
            )
        return found


@dataclass(frozen=True)
class Repeated(Drawn, PassageTask):
    """Find the letter that occurs twice; a quarter of the test passages has none."""

    name = "repeated-of-tests"
    vocabulary = Vocabulary("abcdefgh")  # type: ignore[assignment]

    @property
    def test(self) -> list[Passage]:
        every = super().test
        without = [Passage([t for t in p.context if t != p.answer], p.answer) for p in every[:10]]
        return without + every[10:]

    def _draw(self, random: Random, count: int) -> list[Passage]:
        found = []
        for _ in range(count):
            letters = random.sample(range(2, len(self.vocabulary)), 4)
            context = [*letters, letters[0]]
            random.shuffle(context)
            found.append(Passage(context, letters[0]))
        return found
