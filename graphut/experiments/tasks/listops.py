"""ListOps: nested lists of digits, and their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from random import Random
from statistics import median
from string import digits
from typing import Any, ClassVar

import numpy as np

from graphut.experiments.tasks.base import GraphTask, LabelledGraph, Pair, PairTask, Task
from graphut.experiments.tasks.cache import Arrays, cached, pack_lists, unpack_lists
from graphut.experiments.tasks.files import DataSet, published_checksums
from graphut.experiments.tasks.presets import (
    DEEP,
    LIST_TREES,
    NARROW_LAYERS,
    NARROW_LIST_TREE_LAYERS,
    PAIRS,
    with_baselines,
)
from graphut.experiments.tasks.vocabulary import Vocabulary
from graphut.models.checked_config import option

_OPERATORS: dict[str, Callable[[list[int]], int]] = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda values: int(median(values)),
    "[SM": lambda values: sum(values) % 10,
}


class Brackets(Vocabulary):
    """A vocabulary in whose texts a closing bracket need not stand by itself.

    Examples
    --------
    >>> symbols = Brackets(["[MAX", "2", "7", "]"])
    >>> symbols.write(symbols.read("[MAX 2 [MAX 7 2] 7]"))
    '[MAX 2 [MAX 7 2 ] 7 ]'
    >>> symbols.nesting(symbols.read("[MAX 2 [MAX 7 2] 7]"))
    2
    """

    def nesting(self, tokens: Sequence[int]) -> int:
        """Return how deep the deepest list is nested; a list without another in it counts 1."""
        symbols = self.decode(tokens)
        changes = (s.startswith("[") - (s == "]") for s in symbols)
        return max(accumulate(changes), default=0)

    def read(self, text: str) -> list[int]:
        """Return the token ids of symbols between white space, or before a closing bracket."""
        return super().read(text.replace("]", " ]"))


_SYMBOLS = Brackets([*digits, *_OPERATORS, "]"])
_DIGITS = Brackets(digits)
_KINDS = Vocabulary([*digits, *_OPERATORS])  # of nodes in a tree
_OFFICIAL = DataSet(
    "from https://github.com/nyu-mll/spinn, python/spinn/data/listops: name that folder",
    published_checksums("listops"),
)
_FORMAT = 3  # of the cache
_LIST_SHARE = 0.25
_LARGEST_MEAN = 10_000  # symbols of an expression
_TRIES = 100  # expressions drawn for one that is wanted, at most
# Nine tenths of all expressions have at most 100 symbols. A small set is soon known by heart. A
# tenth of these expressions is nested deeper than 6. Steps cost nothing until the model stops
# learning: at a price from the start, it settles at two.
_SMALL = (
    PAIRS
    | DEEP
    | {"max_steps": 12, "ponder_wait": 2}
    | {"share_embeddings": False, "longest": 100, "train_size": 100_000, "epochs": 10}
)


def draw_expression(random: Random, max_depth: int, max_values: int) -> tuple[list[str], int]:
    """Draw a list, and return its symbols and its value (arXiv 1804.06028, and its generator).

    A list has 2 to `max_values` values, each a list with probability 1/4 and else a digit;
    at depth `max_depth` there are digits only. The generator's rare expressions of one digit
    and no list are left out.

    Examples
    --------
    >>> symbols, value = draw_expression(Random(2), max_depth=3, max_values=3)
    >>> print(*symbols, "=", value)
    [MIN [MED 4 9 ] [MAX 6 6 ] ] = 6
    """
    count = random.randint(2, max_values)
    operator = random.choice(list(_OPERATORS))
    symbols, values = [operator], []
    for _ in range(count):
        if max_depth > 2 and random.random() < _LIST_SHARE:
            part, value = draw_expression(random, max_depth - 1, max_values)
        else:
            value = random.randrange(10)
            part = [str(value)]
        symbols += part
        values.append(value)
    return [*symbols, "]"], _OPERATORS[operator](values)


def mean_symbols(max_depth: int, max_values: int) -> float:
    """Return how many symbols the expressions of `draw_expression` have on average.

    It ends the count beyond `_LARGEST_MEAN`.

    Examples
    --------
    >>> mean_symbols(2, 4)  # an operator, three digits and a bracket
    5.0
    """
    values = (2 + max_values) / 2
    symbols = values + 2
    for _ in range(max_depth - 2):
        if symbols > _LARGEST_MEAN:
            break
        symbols = 2 + values * (1 - _LIST_SHARE + _LIST_SHARE * symbols)
    return symbols


def parse(line: str) -> Pair:
    r"""Return the token ids of a line of the official files.

    Their parentheses are left out: they show a binary tree that the brackets say already.

    Examples
    --------
    >>> source, target = parse("7\t( ( ( [MAX 2 ) 7 ) ] )")
    >>> _SYMBOLS.decode(source), _DIGITS.decode(target)
    (['[MAX', '2', '7', ']'], ['7'])
    """
    value, tab, expression = line.partition("\t")
    if not tab:
        raise ValueError(f"expected a value, a tab and an expression, got {line!r}")
    return _SYMBOLS.encode(s for s in expression.split() if s not in "()"), _DIGITS.encode(value)


@dataclass(frozen=True)
class ListExpressions(Task):
    """Nested lists of digits, and their values.

    The task of arXiv 1804.06028. Operators are minimum, maximum, median (rounded
    down) and sum modulo 10. Expressions are generated as the published ones were: all
    distinct, then split at random, whatever the seed, so that no expression is in two parts.
    Longer ones than `longest` are thrown away; if too few are left, `ValueError` is raised when
    pairs are asked for, and at once where expressions grow beyond all bounds, as from about nine
    values in a list on. The paper has the default depth, values and training size.

    The official test files become the test sets `official-d20s` (the paper's) and `official-d20a`
    (without sums), and no expression in them is trained on. They have up to 1016 symbols each,
    whatever `longest` is.
    """

    data: str | Path | None = option(None, f"folder of the official test files, {_OFFICIAL.origin}")
    max_depth: int = option(20, "depth of the deepest digit", least=2)
    max_values: int = option(5, "values in a list, at most", least=2)
    longest: int = option(1000, "symbols in an expression, at most", least=4)
    train_size: int = option(90_000, "training expressions", least=1)
    held_out: int = option(1000, "expressions in the validation set, and in the test set", least=1)

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        if mean_symbols(self.max_depth, self.max_values) > _LARGEST_MEAN:
            raise ValueError(
                f"expressions of depth {self.max_depth} with up to {self.max_values} values in a "
                f"list have more than {_LARGEST_MEAN} symbols on average: make max_depth or "
                "max_values smaller"
            )

    def load(self, part: str) -> list[Any]:
        """Return the expressions of a part, each with its value."""
        held_out = self.held_out
        ranges = {"validation": (0, held_out), "test": (held_out, 2 * held_out)}
        return self._pairs[slice(*ranges.get(part, (2 * held_out, None)))]

    @cached_property
    def official(self) -> dict[str, list[Pair]]:
        """The expressions of the official test sets, if their folder is named."""
        return {
            name.replace("test_", "official-").removesuffix(".tsv"): list(
                map(parse, text.splitlines())
            )
            for name, text in self._texts.items()
        }

    @cached_property
    def _texts(self) -> dict[str, str]:
        folder, names = self.data, _OFFICIAL.checksums
        return {name: _OFFICIAL.read(folder, name) for name in names if folder is not None}

    @cached_property
    def _pairs(self) -> list[Pair]:
        sizes = (self.max_depth, self.max_values, self.longest, self.train_size, self.held_out)
        arrays = cached(self._draw, "listops", _FORMAT, *sizes, texts=self._texts.values())
        sides = (unpack_lists(arrays[name]) for name in ("sources", "targets"))
        return list(zip(*sides, strict=True))

    def _draw(self) -> Arrays:
        random = Random(0)
        taken = {tuple(source) for pairs in self.official.values() for source, _ in pairs}
        wanted = 2 * self.held_out + self.train_size
        pairs: list[Pair] = []
        for _ in range(_TRIES * wanted):
            symbols, value = draw_expression(random, self.max_depth, self.max_values)
            source = _SYMBOLS.encode(symbols)
            if len(source) <= self.longest and tuple(source) not in taken:
                taken.add(tuple(source))
                pairs.append((source, _DIGITS.encode(str(value))))
            if len(pairs) == wanted:
                random.shuffle(pairs)
                sources, targets = zip(*pairs, strict=True)
                return {"sources": pack_lists(sources), "targets": pack_lists(targets)}
        raise ValueError(
            f"there are not {wanted} expressions of depth {self.max_depth}, {self.max_values} "
            f"values and {self.longest} symbols: allow larger ones, or take fewer"
        )


@dataclass(frozen=True)
class ListOps(ListExpressions, PairTask):
    """ListOps: the values of nested lists of digits, such as `[MAX 2 [MIN 4 7 ] 0 ]`."""

    name = "listops"
    presets = with_baselines(_SMALL, NARROW_LAYERS)
    vocabulary_kind = Brackets
    source_vocabulary: ClassVar[Vocabulary] = _SYMBOLS
    target_vocabulary: ClassVar[Vocabulary] = _DIGITS

    @property
    def test_sets(self) -> Mapping[str, list[Pair]]:
        """`test`, and the official ones, if their folder is named."""
        return {"test": self.test, **self.official}


@dataclass(frozen=True)
class ListOpsTree(ListExpressions, GraphTask):
    """ListOps with the brackets' tree as graph: news goes from a list's values to the list.

    A node is a digit or an operator, and sees itself and its values. In validation and test the
    outermost list alone is asked; with `inner`, all nodes are asked in training, so that they
    learn when to halt. The depth of a list is how deep lists are nested in it, digits included.
    See `ListExpressions` for its other options and errors.

    Examples
    --------
    >>> tree = ListOpsTree(train_size=1, held_out=1, longest=9).test[0]
    >>> tree.nodes, tree.labels, tree.depth
    (array([10,  4,  3,  7,  7,  4]), array([ 3, -1, -1, -1, -1, -1]), array([1, 0, 0, 0, 0, 0]))
    """

    name = "listops-tree"
    presets = with_baselines(LIST_TREES, NARROW_LIST_TREE_LAYERS)
    node_kinds: ClassVar[Vocabulary] = _KINDS
    answers: ClassVar[Vocabulary] = Vocabulary(digits)

    inner: bool = option(True, "train on the values of inner lists and of digits too")

    def load(self, part: str) -> list[LabelledGraph]:
        """Return the trees of a part."""
        inner = self.inner and part == "train"
        return [tree_of(source, inner=inner) for source, _ in super().load(part)]

    @property
    def test_sets(self) -> Mapping[str, list[LabelledGraph]]:
        """`test`, and the official ones, if their folder is named."""
        official = {
            name: [tree_of(source) for source, _ in pairs] for name, pairs in self.official.items()
        }
        return {"test": self.test, **official}


def tree_of(source: list[int], *, inner: bool = False) -> LabelledGraph:
    """Return the tree of an expression; with `inner` the values of all nodes are asked."""
    kinds: list[int] = []
    parents: list[int] = []
    depth: list[int] = []
    values: list[list[int]] = []  # of the parts of each node; digits are their own part
    open_lists = [0]  # the outermost list is its own parent
    for symbol in _SYMBOLS.decode(source):
        if symbol == "]":
            done = open_lists.pop()
            values[done] = [_OPERATORS[_KINDS.symbols[kinds[done]]](values[done])]
        else:
            done = len(kinds)
            kinds.append(_KINDS.symbols.index(symbol))
            parents.append(open_lists[-1])
            depth.append(0)
            values.append([int(symbol)] if symbol in digits else [])
            if symbol not in digits:
                open_lists.append(done)
                continue
        if done:
            values[parents[done]].extend(values[done])
            depth[parents[done]] = max(depth[parents[done]], depth[done] + 1)
    nodes = np.arange(len(kinds))
    labels = np.array(values)[:, 0]
    loops = np.stack([nodes, nodes])
    edges = np.concatenate([np.stack([nodes, parents])[:, 1:], loops], 1)
    asked = labels if inner else np.where(nodes == 0, labels, -1)
    return LabelledGraph(edges, np.array(kinds), asked, np.array(depth))
