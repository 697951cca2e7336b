"""Sudoku as a graph of cells, or as a graph of candidate digits and constraints."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from string import digits
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from graphut.experiments.tasks.base import PARTS, GraphTask, LabelledGraph, LazySets
from graphut.experiments.tasks.cache import cached
from graphut.experiments.tasks.presets import SUDOKU
from graphut.experiments.tasks.vocabulary import Vocabulary
from graphut.models.checked_config import option

Cells = NDArray[np.int64]
"""`(81,)`, the digit of each cell, row by row; 0 if the cell is empty."""

_CELL = np.arange(81)
_PLACES = np.stack([_CELL // 9, _CELL % 9, _CELL // 27 * 3 + _CELL % 9 // 3], 1)
"""`(81, 3)`, row, column and box of each cell."""
_UNITS = np.concatenate([place == np.arange(9)[:, None] for place in _PLACES.T])
"""`(27, 81)`, whether a cell is in a row, a column or a box."""
_SEES = _UNITS.T.astype(np.int64) @ _UNITS > 0  # (81, 81)
_EDGES = np.stack(np.nonzero(_SEES))
_CELL_KINDS = Vocabulary([".", *digits[1:]])
_CANDIDATE_KINDS = Vocabulary(["cell", "row", "column", "box", "candidate"])
_SEEN_BITS = [sum(1 << int(cell) for cell in np.flatnonzero(row)) for row in _SEES]
_UNIT_BITS = [sum(1 << int(cell) for cell in np.flatnonzero(row)) for row in _UNITS]
_ALL = (1 << 81) - 1
_SEED_CELLS = 8  # drawn in addition to the first row, so that the search finds diverse grids
_GIVENS = (24, 49)  # range of the number of givens, without its end
_FORMAT = 1  # of the cache


def solutions(puzzle: Sequence[int], limit: int = 2) -> list[list[int]]:
    """Return up to `limit` solutions of a puzzle: the digits row by row, with 0 for empty cells."""
    return [solution for solution, _ in zip(_search(*_start(puzzle)), range(limit), strict=False)]


def _start(puzzle: Sequence[int]) -> tuple[list[int], int]:
    """Return bit masks of cells: `places`, the possible cells of each digit, and empty cells."""
    places, empty = [_ALL] * 9, _ALL
    for cell, digit in enumerate(puzzle):
        if digit:
            empty = _place(places, empty, 1 << cell, digit - 1)
    return places, empty


def _place(places: list[int], empty: int, cell: int, digit: int) -> int:
    """Put a digit (0 to 8) into a cell; update `places`, and return the cells still empty."""
    here = places[digit] & cell
    for other in range(9):
        places[other] &= ~cell
    places[digit] = places[digit] & ~_SEEN_BITS[cell.bit_length() - 1] | here
    return empty & ~cell


def _search(places: list[int], empty: int) -> Iterator[list[int]]:
    """Yield solutions: fill cells with one possible digit, then try the digits of another cell."""
    while True:
        one = two = three = 0  # cells with at least one, two and three candidates
        for place in places:
            three |= two & place
            two |= one & place
            one |= place
        if one != _ALL:
            return  # a cell has no candidate
        forced = empty & ~two
        cell = forced & -forced
        digit = next((digit for digit in range(9) if places[digit] & cell), -1)
        if not forced and empty:
            single = _only_cell(places, empty)
            if single is None:
                return  # a digit has no cell
            cell, digit = single
        if not cell:
            break
        empty = _place(places, empty, cell, digit)
    if not empty:
        yield [next(d for d in range(9) if places[d] >> cell & 1) + 1 for cell in range(81)]
        return
    few = empty & ~three or empty
    cell = few & -few
    for digit in range(9):
        if places[digit] & cell:
            tried = places.copy()
            yield from _search(tried, _place(tried, empty, cell, digit))


def _only_cell(places: Sequence[int], empty: int) -> tuple[int, int] | None:
    """Return a cell and the digit that has no other possible cell in a row, column or box.

    Return `(0, -1)` if there is no such digit, and None if a digit has no possible cell.
    """
    for unit in _UNIT_BITS:
        for digit, place in enumerate(places):
            cells = place & unit
            if not cells:
                return None
            if not cells & (cells - 1) and cells & empty:
                return cells, digit
    return 0, -1


def draw_puzzle(random: np.random.Generator) -> tuple[Cells, Cells]:
    """Draw a random puzzle and its only solution.

    Start from a random solution, and empty one cell after the other, in random order, as long as
    the solution stays unique. No further digit can then be removed.
    """
    first = np.zeros(81, np.int64)
    first[:9] = random.permutation(9) + 1
    rest = random.permutation(np.arange(9, 81))[:_SEED_CELLS]
    solution = None
    while solution is None:
        first[rest] = random.integers(1, 10, len(rest))
        solution = next(iter(solutions(first.tolist(), 1)), None)
    puzzle = solution.copy()
    for cell in random.permutation(81).tolist():
        digit, puzzle[cell] = puzzle[cell], 0
        places, empty = _start(puzzle)
        places[digit - 1] &= ~(1 << cell)
        if any(_search(places, empty)):  # there is a solution with another digit
            puzzle[cell] = digit
    return np.array(puzzle), np.array(solution)


def rounds(puzzle: Cells) -> NDArray[np.int64]:
    """Return the number of the round of deduction that fills each cell, `(81,)`.

    A round fills all cells that have a single possible digit, or that are the only possible cell of
    a digit in their row, column or box. The number is 0 for cells that the puzzle gives, and -1 for
    cells that no round fills.
    """
    filled = (puzzle[:, None] == np.arange(1, 10)).astype(np.int64)
    number_of, units = np.where(puzzle > 0, 0, -1), _UNITS.astype(np.int64)
    for number in range(1, 82):
        left = (_SEES @ filled == 0) & (number_of[:, None] < 0)
        only = left & (left.sum(1, keepdims=True) == 1)
        only |= left & (units.T @ (units @ left == 1) > 0)
        new = only.any(1)
        if not new.any():
            break
        number_of[new], filled[new] = number, only[new]
    return number_of


@dataclass(frozen=True)
class Sudoku(GraphTask):
    """Sudoku: predict the digit of each cell of puzzles with a unique solution.

    Minimal puzzles, in which all given digits are needed, are drawn once (in about 1/30 s each) and
    cached. Each epoch varies them: more cells are given, up to a random number from 24 to 48, and
    digits, rows, columns, and the two axes are permuted. The test set `minimal` has the minimal
    puzzles themselves. The depth of a cell is the round of deduction that fills it.

    With `graph="cells"` each of the 81 cells has edges from the cells of its row, column and box.
    With `graph="candidates"` there is a node for each candidate, a digit that is possible in an
    empty cell, and a node for each constraint. There are four kinds of constraints: an empty cell
    has one digit, and a row, a column and a box have each digit once. Edges lead from candidates to
    their four constraints and back, and the model chooses a candidate for each constraint. A
    candidate chooses its cell if it is correct, and else itself. In training all nodes are
    labelled, and in validation and test only the constraints of cells.
    """

    name = "sudoku"
    presets = SUDOKU

    train_size: int = option(3000, "training puzzles", least=1)
    held_out: int = option(200, "puzzles in the validation set, and in each test set", least=1)
    graph: Literal["cells", "candidates"] = option(
        "cells", "nodes: the 81 cells; or candidates, the possible digits of empty cells"
    )

    @property
    def answer_at(self) -> Literal["node", "edge", "graph"]:
        return "node" if self.graph == "cells" else "edge"

    @property
    def node_kinds(self) -> Vocabulary:
        return _CELL_KINDS if self.graph == "cells" else _CANDIDATE_KINDS

    @property
    def answers(self) -> Vocabulary:
        return Vocabulary(digits[1:] if self.graph == "cells" else [])

    def train(self, seed: int, epoch: int) -> list[LabelledGraph]:
        """Return random variants of the training puzzles, which differ in each epoch."""
        random = np.random.default_rng([PARTS.index("train"), seed, epoch])
        return self._graphs((_vary(*pair, random) for pair in self._puzzles["train"]), True)

    def load(self, part: str) -> list[LabelledGraph]:
        random = np.random.default_rng(PARTS.index(part))
        return self._graphs(_vary(*pair, random) for pair in self._puzzles[part])

    @property
    def test_sets(self) -> Mapping[str, list[LabelledGraph]]:
        return LazySets(self, {"minimal": lambda: self._graphs(self._puzzles["test"])})

    def _graphs(
        self, pairs: Iterable[tuple[Cells, Cells]], label_all: bool = False
    ) -> list[LabelledGraph]:
        """Return a labelled graph for each pair of a puzzle and its solution."""
        if self.graph == "cells":
            return [
                LabelledGraph(_EDGES, p, s - 1, rounds(p), _PLACES, group=_count_givens(p))
                for p, s in pairs
            ]
        return [candidate_graph(*pair, label_all=label_all) for pair in pairs]

    @cached_property
    def _puzzles(self) -> dict[str, list[tuple[Cells, Cells]]]:
        sizes = dict(zip(PARTS, (self.train_size, self.held_out, self.held_out), strict=True))
        settings = (self.name, _FORMAT, self.train_size, self.held_out)
        arrays = cached(lambda: {part: _draw(part, n) for part, n in sizes.items()}, *settings)
        return {part: [tuple(pair) for pair in arrays[part].astype(np.int64)] for part in PARTS}


def _vary(puzzle: Cells, solution: Cells, random: np.random.Generator) -> tuple[Cells, Cells]:
    """Return a puzzle with the same solution up to symmetry, with more cells given."""
    empty = random.permutation(np.flatnonzero(puzzle == 0))
    givens = random.integers(*_GIVENS)
    shown = empty[: max(0, givens - (81 - len(empty)))]
    puzzle = puzzle.copy()
    puzzle[shown] = solution[shown]
    order, names = _symmetry(random), np.concatenate([[0], random.permutation(9) + 1])
    return names[puzzle[order]], names[solution[order]]


def _draw(part: str, count: int) -> NDArray[np.int8]:
    streams = ([PARTS.index(part), index] for index in range(count))
    return np.array([draw_puzzle(np.random.default_rng(stream)) for stream in streams], np.int8)


def _symmetry(random: np.random.Generator) -> Cells:
    """Draw a random permutation of the cells that maps valid solutions to valid solutions."""

    def permute_axis() -> NDArray[np.int64]:
        bands = random.permutation(3)[:, None] * 3
        return (bands + np.stack([random.permutation(3) for _ in range(3)])).ravel()

    row, column = permute_axis(), permute_axis()
    order = row[:, None] * 9 + column
    return (order.T if random.integers(2) else order).ravel()


def candidate_graph(puzzle: Cells, solution: Cells, *, label_all: bool) -> LabelledGraph:
    """Return the graph of candidates and constraints that `Sudoku` describes.

    Nodes are the constraints (of cells, rows, columns and boxes, in this order) and then the
    candidates. The label of an edge is 1 from a correct candidate to its cell and, if `label_all`,
    to its other constraints, from a cell to its correct candidate, and from a wrong candidate to
    itself.
    """
    givens = puzzle[:, None] == np.arange(1, 10)
    cell, digit = np.nonzero((_SEES @ givens == 0) & (puzzle[:, None] == 0))
    # Constraint `81 * kind + 9 * place + digit`; for cells it is `cell`.
    named = np.stack([cell, *(_PLACES[cell].T * 9 + digit)]) + np.arange(4)[:, None] * 81
    constraints, met = np.unique(named, return_inverse=True)
    nodes = np.arange(len(constraints) + len(cell))
    candidates, met = np.tile(nodes[len(constraints) :], 4), met.ravel()
    sources = np.concatenate([candidates, met, nodes])
    edges = np.stack([sources, np.concatenate([met, candidates, nodes])])
    labels, is_correct = np.zeros(len(sources), np.int64), solution[cell] == digit + 1
    labels[: len(cell)] = is_correct
    if label_all:
        labels[: 5 * len(cell)] = np.tile(is_correct, 5)
        labels[-len(cell) :] = ~is_correct
    depth = np.full(len(nodes), -1)
    empty = puzzle == 0
    depth[: empty.sum()] = rounds(puzzle)[empty]
    kinds = np.append(constraints // 81, np.full(len(cell), 4))
    return LabelledGraph(edges, kinds, labels, depth, group=_count_givens(puzzle))


def _count_givens(puzzle: Cells) -> str:
    return f"{np.count_nonzero(puzzle)} givens"
