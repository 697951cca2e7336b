from collections.abc import Callable
from math import isqrt
from typing import Any

import numpy as np
import pytest

from graphut.experiments.tasks import circuits
from graphut.experiments.tasks.circuits import GENERATORS, KINDS, Bits, Builder, Circuit

RULES: dict[str, Callable[[list[int]], int]] = {
    "and": lambda bits: int(all(bits)),
    "or": lambda bits: int(any(bits)),
    "xor": lambda bits: sum(bits) % 2,
    "nand": lambda bits: int(not all(bits)),
    "nor": lambda bits: int(not any(bits)),
    "xnor": lambda bits: 1 - sum(bits) % 2,
    "not": lambda bits: 1 - bits[0],
    "buf": lambda bits: bits[0],
}


def every_input(bits: int) -> Bits:
    """All rows of bits; the first column is the lowest bit."""
    return (np.arange(2**bits)[:, None] >> np.arange(bits) & 1).astype(np.int8)


def number(values: Bits, nodes: Any) -> list[int]:
    """The numbers that nodes hold, as Python integers of any size."""
    return [sum(bit << place for place, bit in enumerate(row)) for row in values[:, nodes].tolist()]


def plain(circuit: Circuit, row: list[int]) -> list[int]:
    """The values of all nodes, gate by gate."""
    values: list[int] = []
    inputs = iter(row)
    pairs = zip(circuit.kinds.tolist(), circuit.sources.tolist(), strict=True)
    for node, (kind, sources) in enumerate(pairs):
        if node in circuit.inputs:
            values.append(next(inputs))
        elif KINDS[kind] in "01":
            values.append(kind)
        else:
            values.append(RULES[KINDS[kind]]([values[s] for s in sources if s >= 0]))
    return values


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 16, 64])
@pytest.mark.parametrize("name", GENERATORS)
def test_generators_compute_what_they_are_named_after(name: str, bits: int) -> None:
    circuit = GENERATORS[name](bits)
    if bits > 4:
        rows = np.random.default_rng(bits).integers(0, 2, (100, len(circuit.inputs)), np.int8)
        rows[0], rows[1], rows[2, bits:] = 0, 1, 0
    else:
        rows = every_input(len(circuit.inputs))
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


@pytest.mark.parametrize(
    ("kind", "fan_in"),
    [(k, n) for k in RULES for n in (1, 2, 3, 4, 5, 8, 9) if n == 1 or k not in ("not", "buf")],
)
def test_gate_takes_any_number_of_inputs(kind: str, fan_in: int) -> None:
    build = Builder()
    end = build.gate(kind, *build.word("in", fan_in))
    circuit = build.build()
    rows = every_input(fan_in)
    assert circuit.simulate(rows)[:, end].tolist() == [RULES[kind](row) for row in rows.tolist()]
    assert circuit.levels.max() == max(1, int(np.ceil(np.log2(fan_in))))
    assert len(circuit.kinds) == 2 * fan_in - 1 + (fan_in == 1)


def test_random_circuits_equal_a_simulation_gate_by_gate() -> None:
    random = np.random.default_rng(0)
    kinds = set()
    for size in [3, 8, *range(10, 70, 3)]:
        circuit = circuits.random_circuit(size, random)
        rows = random.integers(0, 2, (5, len(circuit.inputs)), np.int8)
        assert len(circuit.kinds) == max(size, len(circuit.inputs))
        assert circuit.simulate(rows).tolist() == [plain(circuit, row) for row in rows.tolist()]
        for gate, (one, other) in enumerate(circuit.sources.tolist()):
            assert (one < 0) == (gate in circuit.inputs) and max(one, other) < gate
            assert one != other or gate in circuit.inputs
            below = [circuit.levels[source] for source in (one, other) if source >= 0]
            assert circuit.levels[gate] == max(below, default=-1) + 1
        kinds |= {KINDS[kind] for kind in circuit.kinds}
    assert kinds == {"0", *RULES}


def test_labelled_has_wires_and_loops_and_the_bits_as_kinds() -> None:
    build = Builder()
    one, other = build.word("in", 2)
    build.gate("not", build.gate("nand", one, other))
    build.gate("1")
    [graph] = build.build().labelled(np.array([[1, 0]], np.int8), "mine")
    assert graph.edges.tolist() == [[0, 1, 2, 0, 1, 2, 3, 4], [2, 2, 3, 0, 1, 2, 3, 4]]
    assert [KINDS[kind] for kind in graph.nodes] == ["1", "0", "nand", "not", "1"]
    assert graph.labels.tolist() == [1, 0, 1, 0, 1] and graph.group == "mine"
    assert graph.depth is not None and graph.depth.tolist() == [0, 0, 1, 2, 0]
