"""ListOps: evaluate nested lists of digits, as sequences or as trees.

graphut train examples/tasks/listops.py --out runs/listops
graphut train examples/tasks/listops.py:tree --preset waking --out runs/trees
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from random import Random
from statistics import median
from string import digits
from typing import Any, ClassVar

import numpy as np

from graphut.experiments.tasks import Vocabulary, presets
from graphut.experiments.tasks.base import GraphTask, LabelledGraph, Pair, PairTask, Task
from graphut.experiments.tasks.files import read_text
from graphut.experiments.training.evaluation import rows_by
from graphut.experiments.training.learners.sequences import PairLearner, by_number, pair_metrics
from graphut.models.checked_config import option

_OPERATORS: dict[str, Callable[[list[int]], int]] = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda values: int(median(values)),
    "[SM": lambda values: sum(values) % 10,
}


class Brackets(Vocabulary):
    """A vocabulary with brackets; a text needs no space before a closing bracket."""

    def nesting(self, tokens: Sequence[int]) -> int:
        """Return the nesting depth of an expression; it is 1 for a list of digits."""
        symbols = self.decode(tokens)
        changes = (s.startswith("[") - (s == "]") for s in symbols)
        return max(accumulate(changes), default=0)

    def read(self, text: str) -> list[int]:
        return super().read(text.replace("]", " ]"))


_SYMBOLS = Brackets([*digits, *_OPERATORS, "]"])
_DIGITS = Brackets(digits)
_KINDS = Vocabulary([*digits, *_OPERATORS])  # of nodes in a tree
_OFFICIAL = ("test_d20s.tsv", "test_d20a.tsv")
_ORIGIN = (
    "get them from https://github.com/nyu-mll/spinn, python/spinn/data/listops: name that folder"
)
_MAX_DEPTH, _MAX_VALUES, _LIST_SHARE = 20, 5, 0.25  # of the published expressions
_TRIES = 100  # expressions drawn for each one needed, at most
# Nine tenths of all expressions have at most 100 symbols, and a tenth of these has a nesting depth
# above 6. Small training sets lead to overfitting.
_SMALL = (
    presets.PAIRS
    | presets.DEEP
    | {"max_steps": 6, "share_embeddings": False}
    | {"longest": 100, "train_size": 200_000, "epochs": 4}
)
# Lists of the official sets are nested at most 20 deep.
_SIZES = {"longest": 100, "train_size": 50_000, "epochs": 6}
_TREES = presets.WHEN_RIGHT | presets.model_size(64, 128, 20) | _SIZES
# A sum modulo 10 needs a sum over the elements, which attention averages. It is learned late: after
# seven epochs, when the other operators have been learned.
_WAKING = (
    presets.EVENT_DRIVEN
    | presets.model_size(64, 128, 12)
    | {"layer": "none", "messages": "sum", "noise": 0.1, "learning_rate": 3e-3, "batch_size": 192}
    | {"evaluation_rule": "event_driven:tol=0.03"}
    | {"longest": 40, "train_size": 100_000, "epochs": 21}
)


def draw_expression(random: Random, max_depth: int = _MAX_DEPTH) -> tuple[list[str], int]:
    """Draw a random list and return its symbols and its value, as in arXiv 1804.06028.

    A list has 2 to 5 elements; each is a list with probability 1/4, and otherwise a digit. Elements
    at the maximum depth are digits. Unlike the paper's generator, this function draws no expression
    that is a single digit.
    """
    count = random.randint(2, _MAX_VALUES)
    operator = random.choice(list(_OPERATORS))
    symbols, values = [operator], []
    for _ in range(count):
        if max_depth > 2 and random.random() < _LIST_SHARE:
            part, value = draw_expression(random, max_depth - 1)
        else:
            value = random.randrange(10)
            part = [str(value)]
        symbols += part
        values.append(value)
    return [*symbols, "]"], _OPERATORS[operator](values)


def parse(line: str) -> Pair:
    """Return the expression and the value in a line of the official files, as token ids."""
    value, tab, expression = line.partition("\t")
    if not tab:
        raise ValueError(f"expected a value, a tab and an expression, got {line!r}")
    return _SYMBOLS.encode(s for s in expression.split() if s not in "()"), _DIGITS.encode(value)


@dataclass(frozen=True)
class ListExpressions(Task):
    """A base class of tasks on nested lists of digits: predict the value of a list.

    The task of arXiv 1804.06028, with the operators minimum, maximum, median (rounded down) and sum
    modulo 10. Expressions of at most `longest` symbols are generated like the published ones: all
    different, then split at random in the same way for all seeds. The official test files become
    the test sets `official-d20s` (the one of the paper) and `official-d20a` (without sums), of up
    to 1016 symbols. Training excludes their expressions.
    """

    data: str | Path | None = option(None, f"folder of the official test files; {_ORIGIN}")
    longest: int = option(1000, "maximum length of an expression, in symbols", least=4)
    train_size: int = option(90_000, "training expressions", least=1)
    held_out: int = option(1000, "expressions in the validation set, and in the test set", least=1)

    def load(self, part: str) -> list[Any]:
        if part in self._files:
            return [*map(parse, self._texts[part].splitlines())]
        held_out = self.held_out
        ranges = {"validation": (0, held_out), "test": (held_out, 2 * held_out)}
        return self._pairs[slice(*ranges.get(part, (2 * held_out, None)))]

    @property
    def test_sets(self) -> list[str]:
        return ["test", *self._files]

    @property
    def _files(self) -> dict[str, str]:
        """The files of the official test sets by the names of the sets."""
        files = _OFFICIAL if self.data is not None else ()
        return {file.replace("test_", "official-").removesuffix(".tsv"): file for file in files}

    @cached_property
    def _texts(self) -> dict[str, str]:
        return {
            name: read_text(Path(self.data or "", file), _ORIGIN)
            for name, file in self._files.items()
        }

    @cached_property
    def _pairs(self) -> list[Pair]:
        random = Random(0)
        expressions = {
            tuple(source) for name in self._files for source, _ in ListExpressions.load(self, name)
        }
        needed = 2 * self.held_out + self.train_size
        pairs: list[Pair] = []
        for _ in range(_TRIES * needed):
            symbols, value = draw_expression(random)
            source = _SYMBOLS.encode(symbols)
            if len(source) <= self.longest and tuple(source) not in expressions:
                expressions.add(tuple(source))
                pairs.append((source, _DIGITS.encode(str(value))))
            if len(pairs) == needed:
                random.shuffle(pairs)
                return pairs
        raise ValueError(f"longest: {needed} expressions need more than {self.longest} symbols")


class ListOpsLearner(PairLearner):
    """Also reports metrics by nesting depth, and by the first operator of the source."""

    def details(self, answered: Sequence[Any]) -> dict[str, Any]:
        symbols = self.vocabularies["source"]
        rows = rows_by("operator", answered, lambda x: symbols.decode(x[0][0])[0], pair_metrics)
        return {
            **super().details(answered),
            "by_nesting": by_number(answered, lambda pair: symbols.nesting(pair[0])),
            "by_operator": [row for row in rows if row["operator"] not in digits],
        }


@dataclass(frozen=True)
class ListOps(ListExpressions, PairTask):
    """ListOps: evaluate nested lists of digits, such as `[MAX 2 [MIN 4 7 ] 0 ]`."""

    name = "listops"
    presets = presets.with_baselines(_SMALL, presets.NARROW_LAYERS)
    learner = ListOpsLearner
    source_vocabulary: ClassVar[Vocabulary] = _SYMBOLS
    target_vocabulary: ClassVar[Vocabulary] = _DIGITS


@dataclass(frozen=True)
class ListOpsTree(ListExpressions, GraphTask):
    """ListOps as a graph: the tree of the brackets, with edges from elements to their list.

    A node is a digit or an operator, and has a self-loop. In training, all nodes are labelled with
    their values, so that the model learns when each node can halt; in validation and test only the
    outermost list is labelled. The depth of a list (the number of steps that its value needs) is
    its nesting depth; the depth of a digit is 0.
    """

    name = "tree"
    presets = presets.with_baselines(_TREES, presets.model_size(16, 24, 18)) | {"waking": _WAKING}
    node_kinds: ClassVar[Vocabulary] = _KINDS
    answers: ClassVar[Vocabulary] = Vocabulary(digits)

    def load(self, part: str) -> list[LabelledGraph]:
        return [tree_of(source, label_all=part == "train") for source, _ in super().load(part)]


def tree_of(source: list[int], *, label_all: bool = False) -> LabelledGraph:
    """Return the tree of an expression; unless `label_all`, label only the outermost list."""
    kinds: list[int] = []  # of a digit, the digit
    parents: list[int] = []
    open_lists = [0]  # the outermost list is its own parent
    for symbol in _SYMBOLS.decode(source):
        if symbol == "]":
            open_lists.pop()
            continue
        kinds.append(_KINDS.symbols.index(symbol))
        parents.append(open_lists[-1])
        if symbol not in digits:
            open_lists.append(len(kinds) - 1)
    values, depth = [*kinds], [0] * len(kinds)
    elements: list[list[int]] = [[] for _ in kinds]
    for node in reversed(range(len(kinds))):  # the elements of a list before the list
        if operator := _OPERATORS.get(_KINDS.symbols[kinds[node]]):
            values[node] = operator(elements[node])
        if node:
            elements[parents[node]].append(values[node])
            depth[parents[node]] = max(depth[parents[node]], depth[node] + 1)
    nodes = np.arange(len(kinds))
    edges = np.concatenate([np.stack([nodes, parents])[:, 1:], np.stack([nodes, nodes])], 1)
    labels = np.array(values) if label_all else np.where(nodes == 0, values, -1)
    return LabelledGraph(edges, np.array(kinds), labels, np.array(depth))
