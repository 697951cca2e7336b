"""Small tasks of questions and of passages, drawn at random."""

from dataclasses import dataclass
from random import Random
from typing import Any

from graphut.experiments.tasks import Passage, PassageTask, Question, QuestionTask, Vocabulary
from graphut.experiments.tasks.base import DrawnTask

NAMES, PLACES = ["john", "mary"], ["garden", "hall", "kitchen"]


class Drawn(DrawnTask):
    """A task whose sets are drawn at random by `make`."""

    epoch_size, held_out = 64, 40

    def draw(self, count: int, part: str, *stream: int) -> list[Any]:
        random = Random(f"{part} {stream}")
        return [self.make(random) for _ in range(count)]

    def make(self, random: Random) -> Any:
        raise NotImplementedError


@dataclass(frozen=True)
class Whereabouts(Drawn, QuestionTask):
    """Questions about where one of two people went; the person is the group."""

    name = "whereabouts-of-tests"
    vocabulary = Vocabulary(["?", "is", "went", "where", *NAMES, *PLACES])  # type: ignore[assignment]
    answers = Vocabulary(PLACES)  # type: ignore[assignment]

    def make(self, random: Random) -> Question:
        places = [random.choice(PLACES) for _ in NAMES]
        facts = [f"{who} went {where}" for who, where in zip(NAMES, places, strict=True)]
        which = random.randrange(len(NAMES))
        return Question(
            facts=[self.vocabulary.read(fact) for fact in facts],
            question=self.vocabulary.read(f"where is {NAMES[which]} ?"),
            answer=PLACES.index(places[which]),
            supporting=(which,),
            group=NAMES[which],
        )


@dataclass(frozen=True)
class Repeated(Drawn, PassageTask):
    """Find the letter that occurs twice; some passages have none."""

    name = "repeated-of-tests"
    vocabulary = Vocabulary("abcdefgh")  # type: ignore[assignment]

    def make(self, random: Random) -> Passage:
        answer, *context = random.sample(range(2, len(self.vocabulary)), 4)
        context += [answer, answer] * (random.random() < 0.8)
        random.shuffle(context)
        return Passage(context, answer)
