"""Stories as text: sentences, words, and questions about what came before."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from graphut.experiments.tasks.base import Question
from graphut.experiments.tasks.vocabulary import Vocabulary
from graphut.sentences import EOS


class Asked(NamedTuple):
    """A question, and what was said before it.

    Parameters
    ----------
    facts : list of str
        The sentences of its story so far, earlier questions left out.
    question : str
        What is asked.
    answer : str
        In small letters; several answers have commas between them.
    supporting : tuple of int
        Which of the facts the answer follows from, from 0.
    """

    facts: list[str]
    question: str
    answer: str
    supporting: tuple[int, ...]

    def kept(self, longest: int | None) -> Asked:
        """The same with its last facts alone.

        Examples
        --------
        >>> Asked(["Mary ran.", "Mary slept."], "Who?", "mary", (0, 1)).kept(1)
        Asked(facts=['Mary slept.'], question='Who?', answer='mary', supporting=(0,))
        """
        gone = 0 if longest is None else max(len(self.facts) - longest, 0)
        supporting = tuple(place - gone for place in self.supporting if place >= gone)
        return self._replace(facts=self.facts[gone:], supporting=supporting)


def words(sentence: str) -> list[str]:
    """The words of a sentence in small letters; a question mark is a word, a full stop is none.

    Examples
    --------
    >>> words("Where is the apple?")
    ['where', 'is', 'the', 'apple', '?']
    """
    return re.findall(r"[\w'-]+|\?", sentence.lower())


def sentences(text: str) -> list[str]:
    """A text in its sentences, each of which ends with a full stop or a question mark.

    Examples
    --------
    >>> sentences("Mary went home. Where is Mary?")
    ['Mary went home.', 'Where is Mary?']
    """
    return [part.strip() for part in re.findall(r"[^.?]*[^.?\s][^.?]*[.?]?", text)]


def parse_stories(text: str) -> Iterator[Asked]:
    r"""The questions of a file of bAbI (arXiv 1502.05698), each with its story so far.

    A line is a number, which begins a new story where it is 1, and a sentence; a question has
    its answer and the numbers of the supporting lines after it, between tabs.

    Raises
    ------
    ValueError
        If a line is neither; the message quotes it.

    Examples
    --------
    >>> list(parse_stories("1 Mary went home.\n2 Where is Mary?\thome\t1\n"))
    [Asked(facts=['Mary went home.'], question='Where is Mary?', answer='home', supporting=(0,))]
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
        yield Asked(facts.copy(), sentence, answer.lower(), places)


class StoryEncoder:
    """From questions as text to `Question`.

    Parameters
    ----------
    vocabulary, answers : Vocabulary
        Words, and answers.

    Examples
    --------
    >>> known = Vocabulary(["?", "home", "is", "mary", "where"])
    >>> encode = StoryEncoder(known, Vocabulary(["home"]))
    >>> encode(Asked(["Mary is home."], "Where is Mary?", "home", (0,)), "qa1")
    Question(facts=[[5, 4, 3]], question=[6, 4, 5, 2], answer=0, supporting=(0,), group='qa1')
    """

    def __init__(self, vocabulary: Vocabulary, answers: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.answers = answers
        self._known: dict[str, list[int]] = {}  # few sentences are said again and again

    def __call__(self, asked: Asked, group: str = "") -> Question:
        """One question.

        Raises
        ------
        ValueError
            If a word or the answer is not known.
        """
        [answer] = self.answers.encode([asked.answer])
        return Question(
            facts=[self.sentence(fact) for fact in asked.facts],
            question=self.sentence(asked.question),
            answer=answer - EOS - 1,
            supporting=asked.supporting,
            group=group,
        )

    def sentence(self, text: str) -> list[int]:
        """Token ids of a sentence."""
        if text not in self._known:
            self._known[text] = self.vocabulary.encode(words(text))
        return self._known[text]
