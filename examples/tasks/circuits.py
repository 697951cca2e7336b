"""Simulation of logic circuits: predict the value of every gate.

    graphut train examples/tasks/circuits.py --preset waking --out runs/circuits
    graphut eval runs/circuits --data my_circuit.v

Files in structural Verilog (`.v`) or as ISCAS netlists (`.bench`), and the circuits that come with
circuitgraph, need `pip install circuitgraph`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from graphut._files import reraise_for_file
from graphut.experiments.tasks import GraphTask, LabelledGraph, Vocabulary, option
from graphut.experiments.tasks.base import PARTS, DrawnTask, whole_numbers
from graphut.experiments.tasks.presets import EVENT_DRIVEN, GRAPHS, QUANTIZED, with_baselines

Numbers = NDArray[np.int64]
Bits = NDArray[np.int8]

# Values of a gate for the inputs 00, 01, 10 and 11. A gate with one input reads it twice.
TRUTH: dict[str, tuple[int, ...]] = {
    "0": (0, 0, 0, 0),
    "1": (1, 1, 1, 1),
    "and": (0, 0, 0, 1),
    "or": (0, 1, 1, 1),
    "xor": (0, 1, 1, 0),
    "nand": (1, 1, 1, 0),
    "nor": (1, 0, 0, 0),
    "xnor": (1, 0, 0, 1),
    "not": (1, 1, 0, 0),
    "buf": (0, 0, 1, 1),
}
"""The truth table of each kind of gate. Inputs and constants have the kinds "0" and "1"."""

KINDS = tuple(TRUTH)
TABLE = np.array([*TRUTH.values()], np.int8)
# A gate with many inputs is a tree of gates of the first kind, below a last gate of its own kind.
# With a single input it is a gate of the second kind.
MANY = {"and": ("and", "buf"), "or": ("or", "buf"), "xor": ("xor", "buf")}
MANY |= {"nand": ("and", "not"), "nor": ("or", "not"), "xnor": ("xor", "not")}
SUFFIXES = (".v", ".bench")
TRIES = 10_000  # random circuits drawn for each one needed, at most

# A gate must count its inputs. From random initial states it learns not to rely on the state that
# it has, so that it also finds its new value when an input changes.
SMALL = GRAPHS | {"messages": "sum", "max_steps": 24}
NARROW_LAYERS = {"messages": "none", "d_model": 8, "d_hidden": 16, "max_steps": 18}
WAKING = EVENT_DRIVEN | QUANTIZED | {"messages": "sum", "initial_noise": 2.0}
WAKING |= {"max_steps": 24, "change_penalty": 0.3, "batch_size": 16, "epochs": 8}


@dataclass(frozen=True)
class Circuit:
    """A logic circuit without loops; each gate reads one or two nodes with lower numbers."""

    kinds: Numbers  # (N,) indices into `KINDS`
    sources: Numbers  # (N, 2) the nodes that each gate reads, or -1
    inputs: Numbers  # (I,) the nodes whose bits can be chosen
    words: dict[str, Numbers]  # inputs and outputs by name, from the least significant bit

    @cached_property
    def levels(self) -> Numbers:
        """The number of gates on the longest path to each node, `(N,)`."""
        level = [-1] * (len(self.kinds) + 1)  # the last is for the source -1
        for node, (one, other) in enumerate(self.sources.tolist()):
            level[node] = 1 + max(level[one], level[other])
        return np.array(level[:-1])

    def simulate(self, bits: Bits) -> Bits:
        """Return the values of all nodes, `(V, N)`, for `V` rows of input bits, `(V, I)`."""
        values = np.zeros((len(self.kinds), len(bits)), np.int8)
        values[self.kinds == 1] = 1
        values[self.inputs] = bits.T
        order = np.argsort(self.levels, kind="stable")
        for gates in np.split(order, np.bincount(self.levels).cumsum()[:-1])[1:]:
            one, other = self.sources[gates].T
            other = np.where(other < 0, one, other)
            values[gates] = TABLE[self.kinds[gates, None], 2 * values[one] + values[other]]
        return values.T

    def with_bits(self, bits: Bits) -> Numbers:
        """Return all nodes' kinds (gate types), `(N,)`; an input's kind is its bit, from `(I,)`."""
        kinds = self.kinds.copy()
        kinds[self.inputs] = bits
        return kinds

    @cached_property
    def edges(self) -> Numbers:
        """The wires as edges, followed by a self-loop for each node, `(2, E)`."""
        gate, place = np.nonzero(self.sources >= 0)
        node = np.arange(len(self.kinds))
        return np.stack([np.append(self.sources[gate, place], node), np.append(gate, node)])

    def labelled(self, bits: Bits) -> list[LabelledGraph]:
        """Return a graph for each row of I input bits; labels are node values."""
        rows = zip(bits, self.simulate(bits).astype(np.int64), strict=True)
        return [
            LabelledGraph(self.edges, self.with_bits(row), values, self.levels)
            for row, values in rows
        ]


@dataclass
class Builder:
    """A circuit under construction; its methods take and return the numbers of nodes."""

    kinds: list[int] = field(default_factory=list)
    sources: list[tuple[int, int]] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    words: dict[str, Numbers] = field(default_factory=dict)

    def gate(self, kind: str, *sources: int) -> int:
        """Add a gate with inputs `sources` (a constant has none), and return its node number.

        A gate with more than two inputs becomes a balanced tree of gates with two inputs.
        """
        rows = list(sources)
        if len(rows) == 1 and kind in MANY:
            kind = MANY[kind][1]
        while len(rows) > 2:
            pairs = [rows[at : at + 2] for at in range(0, len(rows), 2)]
            rows = [self.gate(MANY[kind][0], *pair) if pair[1:] else pair[0] for pair in pairs]
        one, other, *_ = *rows, -1, -1
        self.kinds.append(KINDS.index(kind))
        self.sources.append((one, other))
        return len(self.kinds) - 1

    def word(self, name: str, bits: int) -> list[int]:
        """Add input nodes for a number with `bits` bits; return them, lowest bit first."""
        added = [self.gate("0") for _ in range(bits)]
        self.inputs += added
        self.words[name] = np.array(added)
        return added

    def ripple(self, ones: list[int], others: list[int], carry: int) -> tuple[list[int], int]:
        """Add gates for the sum of two numbers and a carry; return the sum's bits and the carry."""
        total = []
        for one, other in zip(ones, others, strict=True):
            half = self.gate("xor", one, other)
            carries = self.gate("and", one, other), self.gate("and", half, carry)
            total.append(self.gate("xor", half, carry))
            carry = self.gate("or", *carries)
        return total, carry

    def subtract_if_possible(self, ones: list[int], negated: list[int], one: int) -> list[int]:
        """Add gates that subtract a number from `ones`, unless the result would be negative.

        `negated` has the inverted bits of the number to subtract, and `one` is the constant 1.
        Return the nodes of the difference (of `ones` if it would be negative), and then a node
        whose value is 1 if the number was subtracted.
        """
        difference, is_possible = self.ripple(ones, negated, one)
        keep = self.gate("not", is_possible)
        chosen = [
            self.gate("or", self.gate("and", new, is_possible), self.gate("and", old, keep))
            for new, old in zip(difference, ones, strict=True)
        ]
        return [*chosen, is_possible]

    def build(self, outputs: Mapping[str, list[int]] = MappingProxyType({})) -> Circuit:
        """Return the finished circuit; `outputs` maps a result's name to its bits' nodes."""
        named = self.words | {name: np.array(bits) for name, bits in outputs.items()}
        sources = np.array(self.sources, np.int64).reshape(-1, 2)
        return Circuit(np.array(self.kinds), sources, np.array(self.inputs), named)


def random_circuit(nodes: int, random: np.random.Generator) -> Circuit:
    """Draw a circuit with 2 to 7 inputs; each gate reads from the last 3 to 11 nodes before it."""
    build = Builder()
    build.word("in", int(random.integers(2, 8)))
    for kind, reach, one, other in random.random((max(0, nodes - len(build.kinds)), 4)).tolist():
        size = len(build.kinds)
        near = min(3 + int(9 * reach), size)
        first = int(near * one)
        second = (first + 1 + int((near - 1) * other)) % near  # another one
        name = KINDS[2 + int((len(KINDS) - 2) * kind)]
        sources = (first,) if name in ("not", "buf") else (first, second)
        build.gate(name, *(size - 1 - source for source in sources))
    return build.build()


def adder(bits: int) -> Circuit:
    """Return a ripple-carry adder of two numbers with `bits` bits."""
    build = Builder()
    one, other = build.word("a", bits), build.word("b", bits)
    total, carry = build.ripple(one, other, build.gate("0"))
    return build.build({"sum": [*total, carry]})


def multiplier(bits: int) -> Circuit:
    """Return an array multiplier: a row of full adders for each bit of the second number."""
    build = Builder()
    one, other = build.word("a", bits), build.word("b", bits)
    zero, product = build.gate("0"), []
    total = [zero] * (bits + 1)
    for place in other:
        row = [build.gate("and", bit, place) for bit in one]
        added, carry = build.ripple(total[1:], row, zero)
        total = [*added, carry]
        product.append(total[0])
    return build.build({"product": [*product, *total[1:]]})


def divider(bits: int) -> Circuit:
    """Return a restoring array divider; for a divisor of 0, all bits of the quotient are 1."""
    build = Builder()
    dividend, divisor = build.word("a", bits), build.word("b", bits)
    zero, one = build.gate("0"), build.gate("1")
    negated = [build.gate("not", bit) for bit in divisor] + [one]
    rest, quotient = [zero] * bits, list[int]()
    for bit in reversed(dividend):
        *rest, _, digit = build.subtract_if_possible([bit, *rest], negated, one)
        quotient.insert(0, digit)
    return build.build({"quotient": quotient, "remainder": rest})


def sqrt(bits: int) -> Circuit:
    """Return an array circuit for the square root, rounded down, of a number with `bits` bits."""
    build = Builder()
    radicand = build.word("a", bits)
    zero, one = build.gate("0"), build.gate("1")
    radicand += [zero] * (bits % 2)
    rest, root = list[int](), list[int]()
    for place in range(len(radicand) - 2, -1, -2):
        rest = [*radicand[place : place + 2], *rest]
        # The root so far, followed by the bits 0 and 1, is subtracted.
        negated = [zero, one, *(build.gate("not", bit) for bit in root)]
        negated += [one] * (len(rest) - len(negated))
        *rest, digit = build.subtract_if_possible(rest, negated[: len(rest)], one)
        rest, root = rest[: len(root) + 2], [digit, *root]
    return build.build({"root": root})


GENERATORS = {make.__name__: make for make in (adder, multiplier, divider, sqrt)}
KNOWN = ", ".join(f"{name}-BITS" for name in GENERATORS)
NAMES = f"{KNOWN}, or a circuit of circuitgraph"


def find_circuit(name: str | Path) -> Circuit:
    """Return the circuit of a file, or of one of `NAMES`, such as "adder-64" or "c6288"."""
    if Path(name).suffix:
        return read_circuit(name)
    kind, _, bits = str(name).rpartition("-")
    if kind in GENERATORS:
        if not bits.isdecimal() or not int(bits):
            raise ValueError(f"{name}: {bits!r} must be a number of bits, as in {kind}-8")
        return GENERATORS[kind](int(bits))
    library = {path.stem: path for path in circuit_files()}
    if name not in library:
        # Without variants of the ISCAS-85 circuits with other gates, such as c17g.
        names = [each for each in library if not re.fullmatch(r"c\d+(g|_.*)", each)]
        raise ValueError(f"{name!r} is not {NAMES}: {', '.join(names)}")
    return read_circuit(library[str(name)])


def circuit_files() -> list[Path]:
    """Return the circuits that come with circuitgraph."""
    folder = Path(circuitgraph().__file__).parent / "netlists"
    return sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES)


def circuitgraph() -> Any:
    try:
        import circuitgraph.io
    except ImportError as error:
        reason = f"are read by circuitgraph ({error}): pip install circuitgraph"
        raise ImportError(f"other circuits than {KNOWN} {reason}") from None
    return circuitgraph


def read_circuit(path: str | Path) -> Circuit:
    """Read a circuit from structural Verilog (`.v`) or an ISCAS netlist (`.bench`).

    Flip-flops (`ff`, and those of Genus and Design Compiler) are removed: their outputs become
    inputs of the circuit, and their inputs become outputs.

    Raise `ImportError` if `circuitgraph` is not installed, and `FileNotFoundError` or `ValueError`
    if there is no such file, or its circuit has a loop, an unknown value or an unknown module.
    """
    if Path(path).suffix not in SUFFIXES:
        raise ValueError(f"{path} must be a circuit, a file that ends in {' or '.join(SUFFIXES)}")
    package = circuitgraph()
    io, parsing_error = package.io, package.parsing.VerilogParsingError
    flip_flops = [io.BlackBox("ff", ["CK", "D"], ["Q"]), *io.genus_flops, *io.dc_flops]
    with reraise_for_file(path, "is not a circuit that can be read"):
        try:
            return convert(io.from_file(path, blackboxes=flip_flops))
        except parsing_error as error:
            where = f"line {error.line} and column {error.column} of the module"
            raise ValueError(f"{error.message}, at {where}") from error


def convert(read: Any) -> Circuit:
    """Convert a circuit of `circuitgraph`; each gate gets a higher number than its inputs."""
    import networkx

    graph, build = read.graph, Builder()
    number: dict[str, int] = {}
    ends: dict[str, list[int]] = {}
    if read.is_cyclic():
        loop = [name for name, _ in networkx.find_cycle(graph)]
        raise ValueError(f"its gates form a loop: {' -> '.join(loop)}")
    for name in networkx.lexicographical_topological_sort(graph):
        kind, sources = graph.nodes[name]["type"], sorted(graph.pred[name])
        plain = name.removeprefix("\\")  # which escapes brackets
        if kind in ("input", "bb_output"):
            [number[name]] = build.word(plain, 1)
        elif kind in ("0", "1"):
            number[name] = build.gate(kind)
        elif sources and kind != "x":
            gate = "buf" if kind == "bb_input" else kind
            number[name] = build.gate(gate, *(number[source] for source in sources))
        elif kind == "bb_input":
            continue  # an input of a flip-flop that is not connected
        else:
            raise ValueError(f"its net {name} has no value")
        if kind == "bb_input" or read.is_output(name):
            ends[plain] = [number[name]]
    return build.build(ends)


@dataclass(frozen=True)
class CircuitSimulate(DrawnTask, GraphTask):
    """Predict the value of every gate of a logic circuit, given the bits at its inputs.

    Circuits for training are random and small; larger ones are for tests. Edges follow the wires,
    and each node has a self-loop. The depth of a gate is the number of gates on the longest path
    to it. `graphut eval RUN --data adder.v` reads a circuit of your own.
    """

    name: ClassVar[str] = "circuit-simulate"
    presets = with_baselines(SMALL, NARROW_LAYERS) | {"waking": WAKING}
    node_kinds: ClassVar[Vocabulary] = Vocabulary(KINDS)
    answers: ClassVar[Vocabulary] = Vocabulary(["0", "1"])

    gates: str = option("6-60", "nodes of a random circuit: a range, or several, with commas")
    levels: int = option(20, "most levels of a random circuit", least=1)
    epoch_size: int = option(6400, "circuits in an epoch", least=1)
    held_out: int = option(500, "circuits in the validation set, and in the test set", least=1)
    test_circuits: str = option(
        "adder-64,multiplier-16,divider-16", f"further test sets, with commas: {NAMES}"
    )
    vectors: int = option(16, "random bits at the inputs, for each of these circuits", least=1)

    def _check_values(self) -> None:
        _ = self._sizes
        for name in self._names:
            find_circuit(name)  # which raises an error

    @property
    def _names(self) -> list[str]:
        return [name.strip() for name in self.test_circuits.split(",") if name.strip()]

    @property
    def _sizes(self) -> list[int]:
        return whole_numbers("gates", self.gates, 3)

    @property
    def test_sets(self) -> list[str]:
        return ["test", *self._names]

    def load(self, part: str) -> list[LabelledGraph]:
        return super().load(part) if part in PARTS else self.read(part)

    def draw(self, count: int, part: str, *stream: int) -> list[LabelledGraph]:
        random = np.random.default_rng([PARTS.index(part), *stream])
        return [self._draw_one(random) for _ in range(count)]

    def _draw_one(self, random: np.random.Generator) -> LabelledGraph:
        for _ in range(TRIES):
            nodes = self._sizes[int(random.integers(len(self._sizes)))]
            circuit = random_circuit(nodes, random)
            if circuit.levels.max() <= self.levels:
                bits = random.integers(0, 2, (1, len(circuit.inputs)), np.int8)
                return circuit.labelled(bits)[0]
        raise ValueError(
            f"random circuits of {self.gates} nodes have more than {self.levels} levels: raise "
            "levels, or lower gates"
        )

    def read(self, name: str) -> list[LabelledGraph]:
        """Find a circuit with `find_circuit`; return it with each of `vectors` random inputs."""
        circuit, stem = find_circuit(name), Path(name).stem
        random = np.random.default_rng([PARTS.index("test"), crc32(stem.encode())])
        bits = random.integers(0, 2, (self.vectors, len(circuit.inputs)), np.int8)
        return circuit.labelled(bits)
