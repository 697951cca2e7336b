from collections import Counter
from itertools import permutations

import numpy as np
import pytest

from graphut.experiments.tasks import LabelledGraph
from graphut.experiments.tasks.sudoku import Sudoku, draw_puzzle, rounds, solutions

SMALL = {"train_size": 3, "held_out": 4}
# Puzzles of which people write.
WIKIPEDIA = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
INKALA = "8..........36......7..9.2...5...7.......457.....1...3...1....68..85...1..9....4.."


def digits(text: str) -> list[int]:
    return [int(symbol) for symbol in text.replace(".", "0")]


def sees(one: int, other: int) -> bool:
    """Return if two cells are in one row, column or box."""
    (row, column), (row2, column2) = divmod(one, 9), divmod(other, 9)
    box = (row // 3, column // 3) == (row2 // 3, column2 // 3)
    return row == row2 or column == column2 or box


def is_solution(cells: list[int]) -> bool:
    pairs = permutations(range(81), 2)
    is_valid = all(cells[i] != cells[j] for i, j in pairs if sees(i, j))
    return is_valid and set(cells) == set(range(1, 10))


def plain_solutions(cells: list[int], limit: int) -> list[list[int]]:
    """Try one digit after another in the first empty cell."""
    if 0 not in cells:
        return [cells]
    cell, solved = cells.index(0), []
    seen = {cells[other] for other in range(81) if sees(cell, other)}
    for digit in sorted({*range(1, 10)} - seen):
        if len(solved) < limit:
            filled = [*cells[:cell], digit, *cells[cell + 1 :]]
            solved += plain_solutions(filled, limit - len(solved))
    return solved


def test_solutions_equal_a_plain_search() -> None:
    random = np.random.default_rng(0)
    for _ in range(5):
        puzzle, solution = draw_puzzle(random)
        shown = np.where(random.random(81) < 0.6, solution, puzzle).tolist()
        missing = [*shown]
        for cell in random.permutation(np.flatnonzero(shown))[:12]:
            missing[cell] = 0
        for cells in (shown, missing):
            some = solutions(cells, 50)
            assert sorted(some) == plain_solutions(cells, 51)[:50] or len(some) == 50


def test_solutions_of_puzzles_without_one_and_with_many() -> None:
    assert solutions([5, 5, *[0] * 79]) == []
    assert solutions([0, *range(1, 9), 9, *[0] * 71]) == []  # the first cell has no digit left
    many = solutions([0] * 81, 7)
    assert len(many) == 7 == len({tuple(one) for one in many}) and all(map(is_solution, many))


def test_draw_puzzle_has_one_solution_and_no_given_too_many() -> None:
    for seed in range(3):
        puzzle, solution = draw_puzzle(np.random.default_rng(seed))
        assert solutions(puzzle.tolist()) == [solution.tolist()] and is_solution(solution.tolist())
        assert 20 <= (puzzle > 0).sum() <= 30
        for cell in np.flatnonzero(puzzle):
            fewer = puzzle.copy()
            fewer[cell] = 0
            assert len(solutions(fewer.tolist())) == 2
    again = draw_puzzle(np.random.default_rng(2))
    assert np.array_equal(puzzle, again[0])


def plain_rounds(puzzle: list[int]) -> list[int]:
    """The rounds, cell by cell."""
    cells, rounds_of, number = puzzle.copy(), [0 if digit else -1 for digit in puzzle], 0
    groups = [[cell for cell in range(81) if key(cell) == k] for key in _KEYS for k in range(9)]
    while True:
        number += 1
        left = {
            cell: {*range(1, 10)} - {cells[other] for other in range(81) if sees(cell, other)}
            for cell in range(81)
            if not cells[cell]
        }
        new = {cell: min(options) for cell, options in left.items() if len(options) == 1}
        for group in groups:
            count = Counter(digit for cell in group for digit in left.get(cell, ()))
            for cell in group:
                new.update((cell, digit) for digit in left.get(cell, ()) if count[digit] == 1)
        if not new:
            return rounds_of
        for cell, digit in new.items():
            cells[cell], rounds_of[cell] = digit, number


_KEYS = (lambda c: c // 9, lambda c: c % 9, lambda c: c // 27 * 3 + c % 9 // 3)


@pytest.mark.parametrize("puzzle", [WIKIPEDIA, INKALA])
def test_rounds_equal_a_plain_deduction(puzzle: str) -> None:
    numbers = rounds(np.array(digits(puzzle))).tolist()
    assert numbers == plain_rounds(digits(puzzle))
    assert (-1 in numbers) == (puzzle == INKALA)


def puzzles(graphs: list[LabelledGraph]) -> list[list[int]]:
    return [graph.nodes.tolist() for graph in graphs]


def test_sudoku_puzzles_have_one_solution_which_is_the_label() -> None:
    task = Sudoku(**SMALL)
    for graph in [*task.train(0, 0), *task.train(0, 1), *task.test, *task.test_sets["minimal"]]:
        assert solutions(graph.nodes.tolist()) == [(graph.labels + 1).tolist()]
        givens = int((graph.nodes > 0).sum())
        assert graph.group == f"{givens} givens"
    assert all(20 <= (graph.nodes > 0).sum() <= 48 for graph in task.train(0, 0))
    assert all((graph.nodes > 0).sum() < 30 for graph in task.test_sets["minimal"])


def test_sudoku_draws_each_epoch_anew_and_each_part_from_other_puzzles() -> None:
    one, other = Sudoku(**SMALL), Sudoku(**SMALL)
    assert puzzles(one.train(3, 4)) == puzzles(other.train(3, 4)) != puzzles(one.train(3, 5))
    assert puzzles(one.test) != puzzles(one.validation)


def test_sudoku_cells_see_twenty_others_and_know_their_place() -> None:
    [graph] = Sudoku(train_size=1, held_out=1).test
    pairs = set(map(tuple, graph.edges.T.tolist()))
    assert pairs == {(i, j) for i in range(81) for j in range(81) if sees(i, j)}
    assert len(pairs) == 81 * 21
    assert graph.positions is not None
    assert graph.positions[40].tolist() == [4, 4, 4] and graph.positions[80].tolist() == [8, 8, 8]


@pytest.mark.parametrize("part", ["train", "test"])
def test_candidates_meet_the_constraints_of_their_cell_row_column_and_box(part: str) -> None:
    tasks = [Sudoku(train_size=1, held_out=1, graph=kind) for kind in ("cells", "candidates")]
    [plain], [graph] = (task.train(0, 0) if part == "train" else task.test for task in tasks)
    puzzle = plain.nodes.tolist()
    candidates = [
        (cell, digit)
        for cell in range(81)
        for digit in range(1, 10)
        if not puzzle[cell] and digit not in {puzzle[o] for o in range(81) if sees(cell, o)}
    ]
    first = len(graph.nodes) - len(candidates)
    right = set(map(tuple, graph.edges.T[graph.labels == 1].tolist()))
    expected, right_expected = {(node, node) for node in range(len(graph.nodes))}, set()
    constraint_of: dict[tuple[int, ...], int] = {}
    edges = graph.edges.T.tolist()
    for node, (cell, digit) in enumerate(candidates, first):
        met = sorted(target for source, target in edges if source == node != target)
        assert graph.nodes[[*met, node]].tolist() == [0, 1, 2, 3, 4]
        for kind, constraint in enumerate(met):
            place = (kind, cell) if kind == 0 else (kind, _KEYS[kind - 1](cell), digit)
            assert constraint_of.setdefault(place, constraint) == constraint
            expected |= {(node, constraint), (constraint, node)}
            if plain.labels[cell] + 1 == digit and (part == "train" or kind == 0):
                right_expected.add((node, constraint))
        if part == "train":
            is_right = plain.labels[cell] + 1 == digit
            right_expected.add((constraint_of[0, cell] if is_right else node, node))
    assert sorted(constraint_of.values()) == [*range(first)]
    assert set(map(tuple, edges)) == expected and len(edges) == len(expected)
    assert right == right_expected
    empty = [cell for cell in range(81) if not puzzle[cell]]
    assert plain.depth is not None and graph.depth is not None
    assert graph.depth.tolist()[: len(empty)] == plain.depth[empty].tolist()
    assert set(graph.depth[len(empty) :]) == {-1}
