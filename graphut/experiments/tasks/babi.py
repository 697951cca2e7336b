"""bAbI: questions about short stories, and the text format of its files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass
from functools import cache, cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

from graphut._tokens import EOS
from graphut.experiments.tasks.base import LazySets, Question, QuestionTask, whole_numbers
from graphut.experiments.tasks.files import DataSet, published_checksums
from graphut.experiments.tasks.presets import DEEP, model_size, with_baselines
from graphut.experiments.tasks.vocabulary import Vocabulary
from graphut.models.checked_config import option


class StoryQuestion(NamedTuple):
    """A question of bAbI and its facts (the sentences of the story before it), as text."""

    facts: list[str]  # the sentences of its story so far, without earlier questions
    question: str
    answer: str  # in lower case; several answers are separated by commas
    supporting: tuple[int, ...]  # indices of the facts that imply the answer

    def with_last_facts(self, count: int | None) -> StoryQuestion:
        """Return the question with only the last `count` facts (sentences); None keeps all."""
        skipped = 0 if count is None else max(len(self.facts) - count, 0)
        supporting = tuple(index - skipped for index in self.supporting if index >= skipped)
        return self._replace(facts=self.facts[skipped:], supporting=supporting)

    def encode(
        self, encode: Callable[[str], list[int]], answers: Vocabulary, group: str = ""
    ) -> Question:
        """Return the question with token ids from `encode`, and its answer's index in `answers`."""
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
    r"""Yield each question in the text of a bAbI file (arXiv 1502.05698), with the facts before it.

    A line has a number and a sentence; the number 1 begins a new story. After a question, the line
    also has the answer and the numbers of the lines that imply it, separated by tabs.

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


NUM_TASKS = 20
_FOLDERS = {"1k": "en-valid", "10k": "en-valid-10k"}
_PARTS = {"train": "train", "validation": "valid", "test": "test"}
_CHECKSUMS = published_checksums("babi")  # the one of `qa3_train.txt` of 10k is unknown
_ORIGIN = (
    "from https://research.facebook.com/downloads/babi (tasks_1-20_v1-2.tar.gz): unpack it, and "
    "name the folder tasks_1-20_v1-2"
)

# Positions count back from the question, because the last sentences matter most, and "he" or
# "after that" refers to the previous sentence. Dropout, offsets, weight decay and small batches
# reduce overfitting to the thousand stories.
_SMALL = (
    DEEP
    | model_size(64, 256, 6)
    | {"positions": "end", "max_offset": 20, "dropout": 0.1, "weight_decay": 0.1}
    | {"batch_size": 32, "warmup": 500, "epochs": 150, "patience": 150, "target_accuracy": 0.999}
)
# The number of weights is close to `small` with the vocabulary of one task, and of all tasks.
_LAYERS = model_size(40, 80, 4)
# tensor2tensor's adaptive_universal_transformer_tiny, with the model of the authors' recipe for
# bAbI (github.com/MostafaDehghani/bAbI-T2T): one node for each sentence, the halting rule of
# tensor2tensor, masks initialised to ones, and the mean over nodes as readout. There, stories are
# padded to the longest one, so that the question always has the same position; here `positions`
# has the same effect. The maximum number of steps there is 4, but the paper reports 3.8 +- 2.2
# steps with three facts; we use 8, as in the recipe without halting. The paper does not give the
# sizes, batch sizes, learning rates and numbers of updates behind its results; it reports the best
# of ten runs. Facts and questions had separate masks there.
_PAPER = (
    model_size(128, 512, 8)
    | {"num_heads": 4, "norm": "pre", "norm_eps": 1e-6, "attention_bias": False}
    | {"rule": "act:weighting=ema,forced_remainder=false", "halted": "running", "halting_bias": 1.0}
    | {"position_signal": "sinusoidal0", "step_signal": "learned", "positions": "fixed"}
    | {"max_length": 131, "longest_story": 130, "mask_init": "ones", "readout": "mean"}
    | {"dropout": 0.1, "attention_dropout": 0.1, "activation_dropout": 0.1, "label_smoothing": 0.1}
    | {"optimizer": "adam", "weight_decay": 0.0, "ponder_weight": 0.01, "ponder_warmup": 0}
    | {"epochs": 1000, "patience": 1000}
)


@dataclass(frozen=True)
class Babi(QuestionTask):
    """bAbI: questions such as "Where is Mary?" about a story, with one answer out of a few.

    The English tasks of arXiv 1502.05698, with the published validation split. Words are in lower
    case without full stops. A list of answers, such as "apple,milk", is one class. The vocabularies
    come from all files of the chosen tasks. With several tasks, one model learns them jointly, and
    results are reported for each task.

    Each task has about 900 training and 100 validation questions in the size "1k", and 9000 and
    1000 in the size "10k". A story has up to 228 sentences (in task 3), unless `longest_story` is
    set; the code of the paper keeps the last 70 sentences, and 130 in task 3.
    """

    name = "babi"
    presets = with_baselines(_SMALL, _LAYERS, _PAPER)

    data: str | Path = option(MISSING, f"folder of bAbI, {_ORIGIN}")
    tasks: str = option("1", 'which of the 20 tasks, as in "1,2,18-20", or "all"')
    size: Literal["1k", "10k"] = option("1k", "training and validation questions of each task")
    longest_story: int | None = option(
        None, "number of facts kept of each story, the last ones (default: all)", least=1
    )

    def _check_values(self) -> None:
        _ = self.groups

    @property
    def groups(self) -> list[str]:
        """The names of the chosen tasks, such as "qa3"."""
        text = f"1-{NUM_TASKS}" if self.tasks == "all" else self.tasks
        return [f"qa{n}" for n in sorted({*whole_numbers("tasks", text, 1, NUM_TASKS)})]

    @cached_property
    def vocabulary(self) -> Vocabulary:
        questions = chain.from_iterable(self._stories.values())
        sentences = set(chain.from_iterable([*each.facts, each.question] for each in questions))
        return Vocabulary(sorted(set(chain.from_iterable(map(words, sentences)))))

    @cached_property
    def answers(self) -> Vocabulary:
        questions = chain.from_iterable(self._stories.values())
        return Vocabulary(sorted({each.answer for each in questions}))

    def load(self, part: str) -> list[Question]:
        @cache  # most sentences occur many times
        def encode(sentence: str) -> list[int]:
            return self.vocabulary.encode(words(sentence))

        return [
            question.encode(encode, self.answers, group)
            for group in self.groups
            for question in self._stories[group, part]
        ]

    @property
    def test_sets(self) -> Mapping[str, list[Question]]:
        """The test sets by name: `test` and, with several tasks, one for each, such as "qa3"."""
        groups = self.groups if len(self.groups) > 1 else []
        return LazySets(self, {group: partial(self._of_group, group) for group in groups})

    def _of_group(self, group: str) -> list[Question]:
        return [question for question in self.test if question.group == group]

    @cached_property
    def _stories(self) -> dict[tuple[str, str], list[StoryQuestion]]:
        """Questions by task and part, such as `("qa3", "test")`."""
        texts = {key: self._data_set.read(self.data, name) for key, name in self._names.items()}
        longest = self.longest_story
        return {
            key: [question.with_last_facts(longest) for question in parse_stories(text)]
            for key, text in texts.items()
        }

    @property
    def _data_set(self) -> DataSet:
        return DataSet(_ORIGIN, {name: _CHECKSUMS.get(name) for name in self._names.values()})

    @property
    def _names(self) -> dict[tuple[str, str], str]:
        return {
            (group, part): f"{_FOLDERS[self.size]}/{group}_{stem}.txt"
            for group in self.groups
            for part, stem in _PARTS.items()
        }
