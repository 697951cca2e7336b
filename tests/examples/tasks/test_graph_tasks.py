"""Graph tasks in examples/tasks train for an epoch, and have the labels of a plain search."""

import shlex
import sys
from math import isqrt
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest

from graphut.experiments.cli import main
from graphut.experiments.tasks import TASKS, LabelledGraph
from tests.helpers import refuses

FOLDER = Path(__file__).parents[3] / "examples" / "tasks"
MODEL = "--d-model 12 --num-heads 2 --d-hidden 8 --max-steps 2 --epochs 1 --device cpu"
SMALL = "--epoch-size 16 --held-out 4"
GRAPHS = f"{SMALL} --pool 16 --sizes 4-8 --test-sizes 12 --test-nodes 1 --test-graphs 2"


def task_of(name: str, **options: Any) -> Any:
    return TASKS[str(FOLDER / f"{name}.py")](**options)


def module_of(name: str) -> Any:
    return sys.modules[type(task_of(name)).__module__]


@pytest.mark.parametrize(
    ("name", "preset", "options", "sets"),
    [
        ("sudoku", "small", "--train-size 3 --held-out 2", "test minimal"),
        ("sudoku", "waking", "--train-size 3 --held-out 2", "test minimal"),
        ("circuits", "waking", f"{SMALL} --test-circuits adder-2,sqrt-3", "test adder-2 sqrt-3"),
        ("mis", "salsa-clrs", f"{GRAPHS} --test-families near", "test near-12"),
        ("prefix_sums", "waking", GRAPHS, "test path-12"),
        ("gwac", "small", GRAPHS, "test gwac-12"),
        ("salsa_clrs", "small", GRAPHS, "test erdos-renyi-12 watts-strogatz-12 delaunay-12"),
    ],
)
def test_tasks_are_trained_and_evaluated(
    name: str, preset: str, options: str, sets: str, tmp_path: Path, capsys: Any
) -> None:
    words = [str(FOLDER / f"{name}.py"), "--preset", preset, *shlex.split(f"{options} {MODEL}")]
    assert main(["train", *words, "--out", str(tmp_path / "run")]) == 0
    capsys.readouterr()
    assert main(["eval", str(tmp_path / "run")]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if ": accuracy" in line]
    assert [line.partition(",")[0] for line in lines] == sets.split()


def sees(one: int, other: int) -> bool:
    """Return if two cells are in one row, column or box."""
    (row, column), (row2, column2) = divmod(one, 9), divmod(other, 9)
    return row == row2 or column == column2 or (row // 3, column // 3) == (row2 // 3, column2 // 3)


def solve(cells: list[int]) -> list[list[int]]:
    """Return at most two solutions: try all digits in the empty cell with the fewest of them."""
    left = {
        cell: {*range(1, 10)} - {cells[other] for other in range(81) if sees(cell, other)}
        for cell in range(81)
        if not cells[cell]
    }
    if not left:
        return [cells]
    cell, solved = min(left, key=lambda cell: len(left[cell])), []
    for digit in left[cell]:
        if len(solved) < 2:
            solved += solve([*cells[:cell], digit, *cells[cell + 1 :]])
    return solved[:2]


def test_sudoku_puzzles_have_one_solution_and_no_given_too_many() -> None:
    task = task_of("sudoku", train_size=2, held_out=2)
    minimal = task.test_sets["minimal"]
    for graph in (task.train(0, 0)[0], task.test[0], minimal[0]):
        assert solve(graph.nodes.tolist()) == [(graph.labels + 1).tolist()]
    for cell in np.flatnonzero(minimal[0].nodes)[::4]:
        assert len(solve(np.where(np.arange(81) == cell, 0, minimal[0].nodes).tolist())) == 2
    assert not np.array_equal(task.train(0, 0)[0].nodes, task.train(0, 1)[0].nodes)
    pairs = {(i, j) for i in range(81) for j in range(81) if sees(i, j)}
    assert {*map(tuple, minimal[0].edges.T.tolist())} == pairs


@pytest.mark.parametrize("part", ["train", "test"])
def test_candidates_choose_their_cell_if_they_are_correct(part: str) -> None:
    sizes = {"train_size": 1, "held_out": 1}
    tasks = [task_of("sudoku", graph=kind, **sizes) for kind in ("cells", "candidates")]
    [plain], [graph] = (task.train(0, 0) if part == "train" else task.test for task in tasks)
    [empty] = np.nonzero(plain.nodes == 0)
    kinds = [task_of("sudoku", graph="candidates").node_kinds.symbols[kind] for kind in graph.nodes]
    assert kinds[: len(empty)] == ["cell"] * len(empty) and kinds[len(empty)] == "row"
    candidates = [
        (cell, digit)
        for cell, place in enumerate(empty)
        for digit in range(1, 10)
        if not any(plain.nodes[other] == digit for other in range(81) if sees(place, other))
    ]
    first = kinds.index("candidate")
    assert len(kinds) == first + len(candidates)
    right = {*map(tuple, graph.edges.T[graph.labels == 1].tolist())}
    for node, (cell, digit) in enumerate(candidates, first):
        is_right = bool(plain.labels[empty[cell]] + 1 == digit)
        assert ((node, cell) in right) is is_right
        assert ((cell, node) in right, (node, node) in right) == (
            (is_right, not is_right) if part == "train" else (False, False)
        )


def number(values: Any, nodes: Any) -> list[int]:
    """Return the numbers that nodes hold, as Python integers of any size."""
    return [sum(bit << place for place, bit in enumerate(row)) for row in values[:, nodes].tolist()]


@pytest.mark.parametrize("bits", [1, 3, 16])
@pytest.mark.parametrize("name", ["adder", "multiplier", "divider", "sqrt"])
def test_circuits_compute_what_they_are_named_after(name: str, bits: int) -> None:
    circuit = module_of("circuits").find_circuit(f"{name}-{bits}")
    rows = np.random.default_rng(bits).integers(0, 2, (100, len(circuit.inputs)), np.int8)
    values = circuit.simulate(rows)
    words = {word: number(values, nodes) for word, nodes in circuit.words.items()}
    for row, one in enumerate(words["a"]):
        other = words["b"][row] if "b" in words else 0
        quotient, remainder = divmod(one, other) if other else (2**bits - 1, one)
        results = {
            "adder": {"sum": one + other},
            "multiplier": {"product": one * other},
            "divider": {"quotient": quotient, "remainder": remainder},
            "sqrt": {"root": isqrt(one)},
        }[name]
        assert {word: words[word][row] for word in results} == results


def test_random_circuits_have_the_values_of_their_gates() -> None:
    task, truth = task_of("circuits", epoch_size=40, gates="3,60"), module_of("circuits").TRUTH
    seen = set()
    for graph in task.train(0, 0):
        for node, kind in enumerate(task.node_kinds.symbols[kind] for kind in graph.nodes):
            sources = graph.edges[0, (graph.edges[1] == node) & (graph.edges[0] != node)]
            one, other = (*graph.labels[sources], *graph.labels[sources], kind == "1", 0)[:2]
            assert graph.labels[node] == truth[kind][2 * one + other]
            assert graph.depth[node] == 1 + max(graph.depth[sources], default=-1)
            seen.add(kind)
    assert seen == {*truth} and {len(graph.nodes) for graph in task.train(0, 0)} <= {*range(3, 61)}
    wrong = task_of("circuits", test_circuits="adder-x")
    refuses("'x' must be a number of bits", wrong.check_files)


def test_circuits_read_verilog_without_its_flip_flops(tmp_path: Path) -> None:
    pytest.importorskip("circuitgraph")
    path, read = tmp_path / "mine.v", module_of("circuits").read_circuit
    body = "ff f1 (.CK(a), .D(w), .Q(q)); nand g1 (w, a, b, q); assign y = w ^ a;"
    ports = "input a, b; output y; wire w, q;"
    path.write_text(f"module mine (a, b, y);\n{ports}\n{body}\nendmodule\n")
    circuit = read(path)
    assert sorted(circuit.words) == ["a", "b", "f1.CK", "f1.D", "f1.Q", "y"]
    values = circuit.simulate((np.arange(8)[:, None] >> np.arange(3) & 1).astype(np.int8))
    a, b, q, w, y = (values[:, circuit.words[n][0]] for n in ("a", "b", "f1.Q", "f1.D", "y"))
    assert (w == 1 - (a & b & q)).all() and (y == w ^ a).all()
    path.write_text("module mine (a, y);\ninput a; output y;\nmagic g1 (y, a);\nendmodule\n")
    refuses(r"mine\.v is not a circuit that can be read: .*magic", read, path)
    assert len(task_of("circuits", vectors=2).read("c17")) == 2


def test_mis_equals_the_greedy_algorithm() -> None:
    for graph in task_of("mis", families="near,delaunay,grid", held_out=40).test:
        first = networkx.DiGraph(graph.edges[:, graph.edge_feats[:, 0] == 1].T.tolist())
        first.add_nodes_from(range(len(graph.nodes)))
        phase: dict[int, int] = {}
        for node in networkx.topological_sort(first):
            chosen = [other for other in first.predecessors(node) if graph.labels[other]]
            before = [phase[other] for other in first.predecessors(node)]
            # A node joins after the last smaller neighbour has left.
            phase[node] = min(map(phase.get, chosen)) if chosen else 1 + max(before, default=0)
            assert graph.labels[node] == (not chosen) and graph.depth[node] == phase[node]


def test_prefix_sums_are_odd_after_an_odd_number_of_ones() -> None:
    task = task_of("prefix_sums", sizes="2-12", held_out=20)
    for graph in task.test:
        loops = graph.edges[0] == graph.edges[1]
        line = [*networkx.topological_sort(networkx.DiGraph(graph.edges[:, ~loops].T.tolist()))]
        bits = [task.node_kinds.symbols[kind][-1] == "1" for kind in graph.nodes[line]]
        assert graph.labels[line].tolist() == (np.cumsum(bits) % 2).tolist()
        assert graph.depth[line].tolist() == [*range(len(line))]


def test_gwac_has_a_tree_and_a_fifth_as_many_more_edges() -> None:
    graphs: list[LabelledGraph] = task_of("gwac", families="gwac", sizes="25-25", held_out=5).test
    for graph in graphs:
        plain = networkx.Graph(graph.edges.T.tolist())
        plain.remove_edges_from([*networkx.selfloop_edges(plain)])
        assert networkx.is_connected(plain) and plain.number_of_edges() == 24 + 5
