"""Stories as text: sentences, words, and questions about what came before."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from graphut.experiments.tasks.base import Question
from graphut.experiments.tasks.vocabulary import Vocabulary
from graphut.sentences import EOS


class StoryQuestion(NamedTuple):
    """A question, and the facts before it."""

    facts: list[str]  # the sentences of its story so far, without earlier questions
    question: str
    answer: str  # in small letters; several answers have commas between them
    supporting: tuple[int, ...]  # the facts that the answer follows from: indices into `facts`

    def with_last_facts(self, count: int | None) -> StoryQuestion:
        """Return the question with its last `count` facts alone; with all, for None."""
        skipped = 0 if count is None else max(len(self.facts) - count, 0)
        supporting = tuple(index - skipped for index in self.supporting if index >= skipped)
        return self._replace(facts=self.facts[skipped:], supporting=supporting)

    def encode(self, vocabulary: Vocabulary, answers: Vocabulary) -> Question:
        """Return the question as token ids of two vocabularies, which know all of its words."""
        [answer] = answers.encode([self.answer])
        facts = [vocabulary.encode(words(fact)) for fact in self.facts]
        question = vocabulary.encode(words(self.question))
        return Question(facts, question, answer - EOS - 1, self.supporting)


def words(sentence: str) -> list[str]:
    """Return the words of a sentence in small letters; a question mark is a word."""
    return re.findall(r"[\w'-]+|\?", sentence.lower())


def sentences(text: str) -> list[str]:
    """Split a text into sentences, each of which ends with a full stop or a question mark."""
    return [part.strip() for part in re.findall(r"[^.?]*[^.?\s][^.?]*[.?]?", text)]


def parse_stories(text: str) -> Iterator[StoryQuestion]:
    r"""Yield the questions of a file of bAbI (arXiv 1502.05698), each with its story so far.

    A line is a number, which begins a new story where it is 1, and a sentence; a question has
    its answer and the numbers of the supporting lines after it, between tabs.

    Examples
    --------
    >>> list(parse_stories("1 Mary ran home.\n2 Who ran?\tMary\t1\n"))
    [StoryQuestion(facts=['Mary ran home.'], question='Who ran?', answer='mary', supporting=(0,))]
    """
    facts: list[str] = []
    index: dict[str, int] = {}  # of facts, by the number of their line
    for line in text.splitlines():
        match = re.fullmatch(r"(\d+) ([^\t]*[^\t ]) ?(?:\t([^\t]+)\t([\d ]*))?", line)
        if match is None:
            raise ValueError(f"expected a number and a sentence, or a question, got {line!r}")
        number, sentence, answer, supporting = match.groups()
        if number == "1":
            facts, index = [], {}
        if answer is None:
            index[number] = len(facts)
            facts.append(sentence)
            continue
        unknown = [line for line in supporting.split() if line not in index]
        if unknown:
            raise ValueError(f"{line!r} is said to follow from line {unknown[0]}, which is no fact")
        places = tuple(index[line] for line in supporting.split())
        yield StoryQuestion(facts.copy(), sentence, answer.lower(), places)
