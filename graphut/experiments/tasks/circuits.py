"""Combinational circuits of logic gates: exact simulation, and random and arithmetic circuits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from graphut.experiments.tasks.base import LabelledGraph

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
_TABLE = np.array([*TRUTH.values()], np.int8)
# A gate with many inputs is a tree of gates of the first kind, below a last gate of its own kind.
# With a single input it is a gate of the second kind.
_MANY = {"and": ("and", "buf"), "or": ("or", "buf"), "xor": ("xor", "buf")}
_MANY |= {"nand": ("and", "not"), "nor": ("or", "not"), "xnor": ("xor", "not")}


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
            values[gates] = _TABLE[self.kinds[gates, None], 2 * values[one] + values[other]]
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

    def labelled(self, bits: Bits, group: str = "") -> list[LabelledGraph]:
        """Return a graph for each row of I input bits, in group `group`; labels are node values."""
        rows = zip(bits, self.simulate(bits).astype(np.int64), strict=True)
        return [
            LabelledGraph(self.edges, self.with_bits(row), values, self.levels, group=group)
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
        if len(rows) == 1 and kind in _MANY:
            kind = _MANY[kind][1]
        while len(rows) > 2:
            pairs = [rows[at : at + 2] for at in range(0, len(rows), 2)]
            rows = [self.gate(_MANY[kind][0], *pair) if pair[1:] else pair[0] for pair in pairs]
        self.kinds.append(KINDS.index(kind))
        self.sources.append((*rows, -1, -1)[:2])  # type: ignore[arg-type]
        return len(self.kinds) - 1

    def word(self, name: str, bits: int) -> list[int]:
        """Add input nodes for a number with `bits` bits; return them, lowest bit first."""
        added = [self.gate("0") for _ in range(bits)]
        self.inputs += added
        self.words[name] = np.array(added)
        return added

    def full_adder(self, one: int, other: int, carry: int) -> tuple[int, int]:
        """Add gates for the sum of three bits, and return the nodes of the sum and of the carry."""
        half = self.gate("xor", one, other)
        carries = self.gate("and", one, other), self.gate("and", half, carry)
        return self.gate("xor", half, carry), self.gate("or", *carries)

    def ripple(self, ones: list[int], others: list[int], carry: int) -> tuple[list[int], int]:
        """Add gates for the sum of two numbers and a carry; return the sum's bits and the carry."""
        total = []
        for one, other in zip(ones, others, strict=True):
            bit, carry = self.full_adder(one, other, carry)
            total.append(bit)
        return total, carry

    def subtract_if_possible(self, ones: list[int], negated: list[int], one: int) -> list[int]:
        """Add gates that subtract a number from `ones`, unless the result would be negative.

        `ones` has the bits of a number, `negated` the inverted bits of the number to subtract, and
        `one` is the constant 1. Return the nodes of the difference (of `ones` if it would be
        negative), and then a node whose value is 1 if the number was subtracted.
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


GENERATORS: dict[str, Callable[[int], Circuit]] = {
    generator.__name__: generator for generator in (adder, multiplier, divider, sqrt)
}
"""Arithmetic circuits by name; each takes the number of bits of its inputs."""
