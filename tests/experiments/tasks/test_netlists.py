import re
import sys
from math import isqrt
from operator import add, mul
from pathlib import Path

import numpy as np
import pytest

from graphut.experiments.tasks.circuits import KINDS, Circuit
from graphut.experiments.tasks.netlists import library_circuit, library_circuits, read_circuit
from tests.experiments.tasks.test_circuits import every_input, number
from tests.helpers import refuses

pytest.importorskip("circuitgraph")


def verilog(folder: Path, body: str, ports: str = "input a, b; output y;") -> Circuit:
    names = ports.replace("input", "").replace("output", "").replace(" ", "").replace(";", ",")
    path = folder / "mine.v"
    path.write_text(f"module mine ({names[:-1]});\n{ports}\n{body}\nendmodule\n")
    return read_circuit(path)


def simulate(circuit: Circuit) -> np.ndarray:
    """The values of all nodes, for 50 rows of random bits at the inputs."""
    random = np.random.default_rng(0)
    return circuit.simulate(random.integers(0, 2, (50, len(circuit.inputs)), np.int8))


def word(circuit: Circuit, names: list[str]) -> list[int]:
    return [int(circuit.words[name][0]) for name in names]


def test_read_circuit_of_verilog(tmp_path: Path) -> None:
    circuit = verilog(tmp_path, "wire w; nand g1 (w, a, b); assign y = w ^ a;")
    values = circuit.simulate(every_input(2))
    a, b, y = (values[:, node] for node in word(circuit, ["a", "b", "y"]))
    assert y.tolist() == ((1 - (a & b)) ^ a).tolist()
    assert sorted(circuit.words) == ["a", "b", "y"] and len(circuit.inputs) == 2


def test_read_circuit_splits_gates_with_many_inputs(tmp_path: Path) -> None:
    ports = "input a, b, c, d, e; output y, z;"
    circuit = verilog(tmp_path, "nor g1 (y, a, b, c, d, e); xor g2 (z, a, c, e);", ports)
    values = circuit.simulate(every_input(5))
    bits = values[:, word(circuit, list("abcde"))]
    assert values[:, word(circuit, ["y"])[0]].tolist() == (bits.sum(1) == 0).tolist()
    assert values[:, word(circuit, ["z"])[0]].tolist() == (bits[:, ::2].sum(1) % 2).tolist()
    assert (circuit.sources >= 0).sum(1).max() == 2


def test_read_circuit_cuts_flip_flops(tmp_path: Path) -> None:
    """A counter modulo 2 is a loop through a flip-flop."""
    body = "not g1 (y, q); fflopd f1 (.CK(a), .D(y), .Q(q));"
    circuit = verilog(tmp_path, body, "input a; output y;")
    assert sorted(circuit.words) == ["a", "f1.CK", "f1.D", "f1.Q", "y"]
    values = circuit.simulate(every_input(2))
    state, following = (values[:, node] for node in word(circuit, ["f1.Q", "f1.D"]))
    assert following.tolist() == (1 - state).tolist()


def test_read_circuit_of_a_bench_file(tmp_path: Path) -> None:
    path = tmp_path / "one.bench"
    path.write_text("INPUT(a)\nINPUT(b)\nOUTPUT(y)\nw = NOT(a)\ny = AND(w, b)\n")
    circuit = read_circuit(path)
    assert [KINDS[kind] for kind in circuit.kinds] == ["0", "0", "not", "and"]
    assert circuit.simulate(every_input(2))[:, -1].tolist() == [0, 0, 1, 0]


def test_read_circuit_names_what_it_cannot_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"mine\.v is not a .*: its gates form a loop: \w+ -> \w+"):
        verilog(tmp_path, "wire w; and g1 (y, a, w); or g2 (w, b, y);")
    refuses("its net tie_x has no value", verilog, tmp_path, "assign y = 1'bx;")
    message = r"mine\.v is not a circuit that can be read: .*magic.* line 3 and"
    refuses(message, verilog, tmp_path, "magic g1 (.i(a), .o(y));")
    refuses(r"mine\.txt must be a circuit, .* \.v or \.bench", read_circuit, tmp_path / "mine.txt")
    with pytest.raises(FileNotFoundError, match=r"none\.v"):
        read_circuit(tmp_path / "none.v")


@pytest.mark.parametrize("name", ["c1", "*", "/tmp/foo", "adder64"])
def test_library_circuit_names_the_choices(name: str) -> None:
    choices = r"adder-BITS, .*, a \.v or \.bench file, or a circuit of circuitgraph \(adder, "
    refuses(re.escape(repr(name)) + " is not " + choices, library_circuit, name)


def test_read_circuit_without_circuitgraph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "circuitgraph.io", None)
    with pytest.raises(ImportError, match="pip install circuitgraph"):
        library_circuits()
    with pytest.raises(ImportError, match=r"'adder64' is not adder-BITS, .* file; other .* pip"):
        library_circuit("adder64")


def test_library_circuits_come_once() -> None:
    names = library_circuits()
    assert len(names) == len({*names}) == 52
    assert {"c17", "c6288", "div", "sqrt", "b17_Cg", "s27", "mux_4"} <= {*names}
    assert not {"c17g", "c17_gates", "c17_assign", "c6288g"} & {*names}


def test_library_circuits_compute_what_they_are_named_after() -> None:
    circuit = library_circuit("c6288")
    nodes = sorted(circuit.words, key=lambda name: int(name[1:]))
    ends = [name for name in nodes if int(name[1:]) >= 545]
    ends[-2:] = "N6288", "N6287"
    assert circuit.levels.max() == 122 and (circuit.sources[:, 0] >= 0).sum() == 2353
    values = simulate(circuit)
    one, other = (number(values, word(circuit, nodes[at : at + 16])) for at in (0, 16))
    assert number(values, word(circuit, ends)) == [*map(mul, one, other)]


def values_of(name: str, **sizes: int) -> list[list[int]]:
    """The numbers at words of a circuit of the library, given their numbers of bits."""
    circuit = library_circuit(name)
    values = simulate(circuit)
    names_of = {key: [f"{key}[{bit}]" for bit in range(size)] for key, size in sizes.items()}
    names_of |= {key: [key] for key, size in sizes.items() if size == 1}
    return [number(values, word(circuit, names)) for names in names_of.values()]


def test_library_adder_adds() -> None:
    one, other, total, carry = values_of("adder", a=128, b=128, f=128, cOut=1)
    assert [t + (c << 128) for t, c in zip(total, carry, strict=True)] == [*map(add, one, other)]


@pytest.mark.full
def test_large_library_circuits_compute_what_they_are_named_after() -> None:
    square, root = values_of("sqrt", a=128, asqrt=64)
    assert root == [*map(isqrt, square)]
    one, other, *results = values_of("div", a=64, b=64, quotient=64, remainder=64)
    assert [*zip(*results, strict=True)] == [*map(divmod, one, other)]
    one, other, product = values_of("multiplier", a=64, b=64, f=128)
    assert product == [*map(mul, one, other)]
