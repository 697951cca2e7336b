"""Graph tasks train for an epoch, and circuits compute what they are named after."""

import shlex
import sys
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphut.experiments.cli import main
from graphut.experiments.tasks import TASKS

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
