"""Sudoku as a graph of cells, or as a graph of candidate digits and constraints.

    graphut train examples/tasks/sudoku.py --preset waking --out runs/sudoku

The puzzles are drawn, which takes minutes, and kept in the folder of temporary files.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from string import digits
from tempfile import gettempdir
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from graphut.experiments.tasks import GraphTask, LabelledGraph, Vocabulary, option
from graphut.experiments.tasks.base import PARTS
from graphut.experiments.tasks.presets import EVENT_DRIVEN, WHEN_RIGHT, model_size, with_baselines

Cells = NDArray[np.int64]
"""`(81,)`, the digit of each cell, row by row; 0 if the cell is empty."""

PLACES = np.stack([(cell // 9, cell % 9, cell // 27 * 3 + cell % 9 // 3) for cell in range(81)])
"""`(81, 3)`, row, column and box of each cell."""
UNITS = np.concatenate([place == np.arange(9)[:, None] for place in PLACES.T])
"""`(27, 81)`, whether a cell is in a row, a column or a box."""
SEES = UNITS.T.astype(np.int64) @ UNITS > 0  # (81, 81)
EDGES = np.stack(np.nonzero(SEES))
SEEN_BITS, UNIT_BITS = (
    [sum(1 << int(cell) for cell in np.flatnonzero(row)) for row in rows] for rows in (SEES, UNITS)
)
ALL = (1 << 81) - 1
SEED_CELLS = 8  # drawn in addition to the first row, so that the search finds diverse grids

# The features divide into features of row, column and box. A puzzle with one wrong cell is wrong.
CELLS = WHEN_RIGHT | model_size(96, 192, 16) | {"batch_size": 16, "epochs": 30}
CELLS |= {"evaluation_rule": "threshold:threshold=0.99,halt_from=output"}
# Puzzles that need a guess may never come to rest. A model is trained from noisy states.
CANDIDATES = EVENT_DRIVEN | {"graph": "candidates", "messages": "sum", "initial_noise": 1.0}
CANDIDATES |= {"evaluation_rule": "event_driven:tol=0.01,max_rounds=200", "noise": 0.1}
CANDIDATES |= {"batch_size": 16, "epochs": 4}


def start(puzzle: Sequence[int]) -> tuple[list[int], int]:
    """Return bit masks of cells: `places`, the possible cells of each digit, and empty cells."""
    places, empty = [ALL] * 9, ALL
    for cell, digit in enumerate(puzzle):
        if digit:
            empty = place_digit(places, empty, 1 << cell, digit - 1)
    return places, empty


def place_digit(places: list[int], empty: int, cell: int, digit: int) -> int:
    """Put a digit (0 to 8) into a cell; update `places`, and return the cells still empty."""
    here = places[digit] & cell
    for other in range(9):
        places[other] &= ~cell
    places[digit] = places[digit] & ~SEEN_BITS[cell.bit_length() - 1] | here
    return empty & ~cell


def search(places: list[int], empty: int) -> Iterator[list[int]]:
    """Yield solutions: fill cells with one possible digit, then try the digits of another cell."""
    while True:
        one = two = three = 0  # cells with at least one, two and three candidates
        for place in places:
            three |= two & place
            two |= one & place
            one |= place
        single = ((place & empty & ~two, digit) for digit, place in enumerate(places))
        cells, digit = next((each for each in single if each[0]), None) or only_cell(places, empty)
        if one != ALL or not cells:
            return  # a cell has no candidate, or a digit no cell
        if cells == ALL:
            break
        empty = place_digit(places, empty, cells & -cells, digit)
    if not empty:
        yield [next(d for d in range(9) if places[d] >> cell & 1) + 1 for cell in range(81)]
        return
    cell = (few := empty & ~three or empty) & -few
    for digit in range(9):
        if places[digit] & cell:
            tried = places.copy()
            yield from search(tried, place_digit(tried, empty, cell, digit))


def only_cell(places: Sequence[int], empty: int) -> tuple[int, int]:
    """Return the only cell (`ALL`: none, 0: impossible) of a digit in a unit, and the digit."""
    for unit, (digit, place) in product(UNIT_BITS, enumerate(places)):
        cells = place & unit
        if not cells or (not cells & (cells - 1) and cells & empty):
            return cells, digit
    return ALL, 0


def draw_puzzle(random: np.random.Generator) -> tuple[list[int], list[int]]:
    """Draw a solution, and empty cells in random order as long as the solution stays unique."""
    first = np.zeros(81, np.int64)
    first[:9] = random.permutation(9) + 1
    rest = random.permutation(np.arange(9, 81))[:SEED_CELLS]
    solution = None
    while solution is None:
        first[rest] = random.integers(1, 10, len(rest))
        solution = next(search(*start(first.tolist())), None)
    puzzle = solution.copy()
    for cell in random.permutation(81).tolist():
        digit, puzzle[cell] = puzzle[cell], 0
        places, empty = start(puzzle)
        places[digit - 1] &= ~(1 << cell)
        if any(search(places, empty)):  # there is a solution with another digit
            puzzle[cell] = digit
    return puzzle, solution


def rounds(puzzle: Cells) -> Cells:
    """Return the number of the round of deduction that fills each cell, `(81,)`.

    A round fills all cells with one possible digit, and those that are the only possible cell of a
    digit in a row, column or box. The number is 0 for givens, and -1 for cells that no round fills.
    """
    filled = (puzzle[:, None] == np.arange(1, 10)).astype(np.int64)
    number_of, units = np.where(puzzle > 0, 0, -1), UNITS.astype(np.int64)
    for number in range(1, 82):
        left = (SEES @ filled == 0) & (number_of[:, None] < 0)
        only = left & (left.sum(1, keepdims=True) == 1)
        only |= left & (units.T @ (units @ left == 1) > 0)
        new = only.any(1)
        number_of[new], filled[new] = number, only[new]
    return number_of


def vary(puzzle: Cells, solution: Cells, random: np.random.Generator) -> tuple[Cells, Cells]:
    """Return a puzzle with the same solution up to symmetry, with more cells given."""
    empty, puzzle = random.permutation(np.flatnonzero(puzzle == 0)), puzzle.copy()
    shown = empty[: max(0, random.integers(24, 49) - (81 - len(empty)))]
    puzzle[shown] = solution[shown]
    # Permute the three bands of an axis, and the three rows of each band.
    row, column = (
        (random.permutation(3)[:, None] * 3 + [random.permutation(3) for _ in range(3)]).ravel()
        for _ in range(2)
    )
    order = row[:, None] * 9 + column
    order = (order.T if random.integers(2) else order).ravel()
    names = np.concatenate([[0], random.permutation(9) + 1])
    return names[puzzle[order]], names[solution[order]]


def candidate_graph(puzzle: Cells, solution: Cells, label_all: bool) -> LabelledGraph:
    """Return the graph of candidates and constraints that `Sudoku` describes.

    The constraints come first, those of cells before those of rows, columns and boxes. With
    `label_all` edges to candidates, and to constraints of rows, columns and boxes, have labels too.
    """
    givens = puzzle[:, None] == np.arange(1, 10)
    cell, digit = np.nonzero((SEES @ givens == 0) & (puzzle[:, None] == 0))
    # Constraint `81 * kind + 9 * place + digit`; for cells it is `cell`.
    named = np.stack([cell, *(PLACES[cell].T * 9 + digit)]) + np.arange(4)[:, None] * 81
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
    depth, empty = np.full(len(nodes), -1), puzzle == 0
    depth[: empty.sum()] = rounds(puzzle)[empty]
    kinds = np.append(constraints // 81, np.full(len(cell), 4))
    return LabelledGraph(edges, kinds, labels, depth)


@dataclass(frozen=True)
class Sudoku(GraphTask):
    """Sudoku: predict the digit of each cell of puzzles with a unique solution.

    Minimal puzzles need all of their givens. Each epoch varies them: more cells are given, up to a
    random number from 24 to 48, and digits, rows, columns, and the two axes are permuted. The test
    set `minimal` has the minimal puzzles. A cell's depth is the round of deduction that fills it.

    With `graph="cells"` each of the 81 cells has edges from the cells of its row, column and box.
    With `graph="candidates"` there is a node for each candidate, a digit that is possible in an
    empty cell, and a node for each constraint: an empty cell has one digit, and a row, a column and
    a box have each digit once. Edges lead from candidates to their four constraints and back, and
    the model chooses a candidate for each constraint. A candidate chooses its cell if it is
    correct, and else itself. Outside of training only the constraints of cells are labelled.
    """

    name = "sudoku"
    presets = with_baselines(CELLS, model_size(24, 48, 16)) | {"waking": CANDIDATES}

    train_size: int = option(3000, "training puzzles", least=1)
    held_out: int = option(200, "puzzles in the validation set, and in each test set", least=1)
    graph: Literal["cells", "candidates"] = option(
        "cells", "nodes: the 81 cells; or candidates, the possible digits of empty cells"
    )

    @property
    def answer_at(self) -> str:
        return "node" if self.graph == "cells" else "edge"

    @property
    def node_kinds(self) -> Vocabulary:
        constraints = ["cell", "row", "column", "box", "candidate"]
        return Vocabulary([".", *digits[1:]] if self.graph == "cells" else constraints)

    @property
    def answers(self) -> Vocabulary:
        return Vocabulary(digits[1:] if self.graph == "cells" else [])

    def train(self, seed: int, epoch: int) -> list[LabelledGraph]:
        """Return random variants of the training puzzles, which differ in each epoch."""
        return self._varied("train", True, seed, epoch)

    def load(self, part: str) -> list[LabelledGraph]:
        if part == "minimal":
            return self._graphs(self._puzzles["test"], False)
        return self._varied(part, False)

    @property
    def test_sets(self) -> Sequence[str]:
        return ("test", "minimal")

    def _varied(self, part: str, label_all: bool, *stream: int) -> list[LabelledGraph]:
        random = np.random.default_rng([PARTS.index(part), *stream])
        return self._graphs((vary(*pair, random) for pair in self._puzzles[part]), label_all)

    def _graphs(self, pairs: Iterable[Sequence[Cells]], label_all: bool) -> list[LabelledGraph]:
        """Return a labelled graph for each pair of a puzzle and its solution."""
        if self.graph == "candidates":
            return [candidate_graph(*each, label_all) for each in pairs]
        return [LabelledGraph(EDGES, p, s - 1, rounds(p), PLACES) for p, s in pairs]

    @cached_property
    def _puzzles(self) -> dict[str, NDArray[np.int64]]:
        """Pairs of a puzzle and its solution, `(pairs, 2, 81)`, of each part."""
        sizes = (self.train_size, self.held_out, self.held_out)
        path = Path(gettempdir(), f"graphut-sudoku-{self.train_size}-{self.held_out}.npy")
        if not path.exists():
            seeds = ([part, at] for part, size in enumerate(sizes) for at in range(size))
            pairs = [draw_puzzle(np.random.default_rng(seed)) for seed in seeds]
            np.save(unfinished := path.with_suffix(".part.npy"), pairs)
            unfinished.replace(path)
        return dict(zip(PARTS, np.split(np.load(path), np.cumsum(sizes)[:-1]), strict=True))
