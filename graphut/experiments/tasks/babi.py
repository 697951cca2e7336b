"""bAbI: questions about short stories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import ClassVar, Literal

from graphut.experiments.tasks.base import Question, QuestionTask
from graphut.experiments.tasks.cache import cached, key_of
from graphut.experiments.tasks.files import DataSet
from graphut.experiments.tasks.packed import (
    Arrays,
    add_prefix,
    pack_words,
    unpack_words,
    with_prefix,
)
from graphut.experiments.tasks.packed_questions import pack_questions, unpack_questions
from graphut.experiments.tasks.stories import StoryEncoder, parse_stories, words
from graphut.experiments.tasks.vocabulary import Vocabulary

NUM_TASKS = 20
_FOLDERS = {"1k": "en-valid", "10k": "en-valid-10k"}
_PARTS = ("train", "valid", "test")
_FORMAT = 1
_ORIGIN = (
    "from https://research.facebook.com/downloads/babi (tasks_1-20_v1-2.tar.gz): unpack it, and "
    "name the folder tasks_1-20_v1-2"
)


def parse_tasks(text: str) -> list[int]:
    """The numbers of tasks in a text.

    Raises
    ------
    ValueError
        If it is none of numbers and ranges from 1 to 20 between commas, nor "all".

    Examples
    --------
    >>> parse_tasks("1,2,18-20")
    [1, 2, 18, 19, 20]
    >>> len(parse_tasks("all"))
    20
    """
    found: set[int] = set()
    for part in (f"1-{NUM_TASKS}" if text == "all" else text).split(","):
        first, dash, last = part.strip().partition("-")
        ends = (first, last if dash else first)
        numbers = [int(end) for end in ends if end.isdecimal()]
        if len(numbers) < 2 or not 1 <= numbers[0] <= numbers[1] <= NUM_TASKS:
            raise ValueError(
                f'tasks must be numbers from 1 to {NUM_TASKS} as in "1,2,18-20", or "all"; '
                f"got {text!r}"
            )
        found.update(range(numbers[0], numbers[1] + 1))
    return sorted(found)


@dataclass(frozen=True)
class Babi(QuestionTask):
    """bAbI: questions such as "Where is Mary?" about a story, with one answer out of a few.

    The tasks of arXiv 1502.05698 in English, with the publishers' own validation split. Words
    are in small letters without full stops; lists of answers, such as "apple,milk", are answers
    of their own. Vocabularies are those of all files of the chosen tasks. Several tasks are
    learned jointly, and each is reported by itself.

    Parameters
    ----------
    data : str or Path
        The folder with `en-valid` and `en-valid-10k` in it.
    tasks : str
        Numbers from 1 to 20, as in "1,2,18-20", or "all".
    size : str
        "1k" (about 900 training and 100 validation questions a task) or "10k" (9000 and 1000).
    longest_story : int, optional
        Facts that are kept, the last ones, of each story; all of them, without it: up to 228,
        in task 3. The paper's code keeps 70, and 130 in task 3.

    Raises
    ------
    ValueError, FileNotFoundError
        If an option is out of range. When questions are asked for: if a file is not there, or
        not as it was published.

    Examples
    --------
    >>> task = Babi("tasks_1-20_v1-2", tasks="1-3")
    >>> task.groups
    ['qa1', 'qa2', 'qa3']
    """

    name: ClassVar[str] = "babi"

    data: str | Path = field(metadata={"help": f"folder of bAbI, {_ORIGIN}"})
    tasks: str = field(
        default="1", metadata={"help": 'which of the 20 tasks, as in "1,2,18-20", or "all"'}
    )
    size: Literal["1k", "10k"] = field(
        default="1k", metadata={"help": "questions to train and validate on, for each task"}
    )
    longest_story: int | None = field(
        default=None, metadata={"help": "facts that are kept of a story, the last ones"}
    )

    def __post_init__(self) -> None:
        parse_tasks(self.tasks)
        if self.size not in _FOLDERS:
            raise ValueError(f"size must be one of {', '.join(_FOLDERS)}; got {self.size!r}")
        if self.longest_story is not None:
            self._check_at_least(1, "longest_story")
        self._make_absolute("data")

    @property
    def groups(self) -> list[str]:
        """Names of the chosen tasks."""
        return [f"qa{number}" for number in parse_tasks(self.tasks)]

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary(unpack_words(self._arrays["words"]))

    @cached_property
    def answers(self) -> Vocabulary:
        return Vocabulary(unpack_words(self._arrays["answers"]))

    def train(self, seed: int, epoch: int) -> list[Question]:
        """All training questions, whatever the seed and the epoch."""
        return self._sets["train"]

    @property
    def validation(self) -> list[Question]:
        return self._sets["valid"]

    @property
    def test(self) -> list[Question]:
        """The test questions of all chosen tasks."""
        return self._sets["test"]

    @property
    def test_sets(self) -> Mapping[str, list[Question]]:
        """`test`, and each of the tasks, if there are several."""
        sets = {group: [q for q in self.test if q.group == group] for group in self.groups}
        return {"test": self.test, **(sets if len(sets) > 1 else {})}

    @cached_property
    def _sets(self) -> dict[str, list[Question]]:
        """The questions of each part."""
        return {part: unpack_questions(with_prefix(part, self._arrays)) for part in _PARTS}

    @cached_property
    def _arrays(self) -> Arrays:
        """Both vocabularies, and the questions of each part."""
        texts = self._read()
        settings = (self.name, _FORMAT, self.groups, self.longest_story)
        return cached(key_of(*settings, texts=texts.values()), lambda: self._encode(texts))

    def _encode(self, texts: Mapping[tuple[str, str], str]) -> Arrays:
        found = {
            which: [asked.kept(self.longest_story) for asked in parse_stories(text)]
            for which, text in texts.items()
        }
        every = [asked for part in found.values() for asked in part]
        # Few, since most are said again and again.
        sentences = {*chain.from_iterable([*asked.facts, asked.question] for asked in every)}
        vocabulary = sorted({*chain.from_iterable(map(words, sentences))})
        answers = sorted({asked.answer for asked in every})
        encode = StoryEncoder(Vocabulary(vocabulary), Vocabulary(answers))
        arrays = {"words": pack_words(vocabulary), "answers": pack_words(answers)}
        for part in _PARTS:
            questions = [
                encode(asked, group) for group in self.groups for asked in found[group, part]
            ]
            arrays |= add_prefix(part, pack_questions(questions))
        return arrays

    def _read(self) -> dict[tuple[str, str], str]:
        """The text of each task's parts."""
        files = self._files
        return {which: files.read(self.data, name) for which, name in self._names.items()}

    @property
    def unchecked_files(self) -> Mapping[str, Path]:
        return self._files.unchecked(self.data)

    @property
    def _files(self) -> DataSet:
        known = _checksums()
        return DataSet(_ORIGIN, {name: known.get(name) for name in self._names.values()})

    @property
    def _names(self) -> dict[tuple[str, str], str]:
        """The file of each task's parts."""
        return {
            (group, part): f"{_FOLDERS[self.size]}/{group}_{part}.txt"
            for group in self.groups
            for part in _PARTS
        }


def _checksums() -> dict[str, str]:
    """The published SHA-256 of each file; that of `qa3_train.txt` of 10k is not known."""
    lines = Path(__file__).with_name("babi.sha256").read_text().splitlines()
    return {name: checksum for checksum, name in map(str.split, lines)}
