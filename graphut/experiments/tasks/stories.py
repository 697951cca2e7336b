"""The text format of bAbI: stories of sentences, with questions in between."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from graphut.experiments.tasks.base import Question
from graphut.experiments.tasks.vocabulary import Vocabulary
from graphut.sentences import EOS


class StoryQuestion(NamedTuple):
    """A question and the facts before it, as text."""

    facts: list[str]  # the sentences of its story so far, without earlier questions
    question: str
    answer: str  # in lower case; several answers are separated by commas
    supporting: tuple[int, ...]  # indices of the facts that imply the answer

    def with_last_facts(self, count: int | None) -> StoryQuestion:
        """Keep only the last `count` facts; None keeps all."""
        skipped = 0 if count is None else max(len(self.facts) - count, 0)
        supporting = tuple(index - skipped for index in self.supporting if index >= skipped)
        return self._replace(facts=self.facts[skipped:], supporting=supporting)

    def encode(
        self, encode: Callable[[str], list[int]], answers: Vocabulary, group: str = ""
    ) -> Question:
        """Return the question as token ids; `encode` maps a sentence to token ids."""
        [answer] = answers.encode([self.answer])
        facts = [encode(fact) for fact in self.facts]
        return Question(facts, encode(self.question), answer - EOS - 1, self.supporting, group)


def words(sentence: str) -> list[str]:
    """Return the words of a sentence in lower case; a question mark is a word."""
    return re.findall(r"[\w'-]+|\?", sentence.lower())


def sentences(text: str) -> list[str]:
    """Split a text into sentences, which end with a full stop or a question mark."""
    return [part.strip() for part in re.findall(r"[^.?]*[^.?\s][^.?]*[.?]?", text)]


def parse_stories(text: str) -> Iterator[StoryQuestion]:
    r"""Yield the questions in a file of bAbI (arXiv 1502.05698), each with its story so far.

    A line holds a number and a sentence; the number 1 begins a new story. A question is followed
    by its answer and the numbers of the supporting lines, separated by tabs.

    Examples
    --------
    >>> list(parse_stories("1 Mary ran home.\n2 Who ran?\tMary\t1\n"))
    [StoryQuestion(facts=['Mary ran home.'], question='Who ran?', answer='mary', supporting=(0,))]
    """
    facts: list[str] = []
    index: dict[str, int] = {}  # of facts, by line number
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
            raise ValueError(f"{line!r} refers to line {unknown[0]}, which is not a fact")
        places = tuple(index[line] for line in supporting.split())
        yield StoryQuestion(facts.copy(), sentence, answer.lower(), places)
