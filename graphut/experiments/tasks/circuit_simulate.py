"""Simulation of logic circuits: predict the value of every gate."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar
from zlib import crc32

import numpy as np

from graphut.experiments.tasks.base import (
    PARTS,
    DrawnTask,
    GraphTask,
    LabelledGraph,
    LazySets,
    whole_numbers,
)
from graphut.experiments.tasks.circuits import GENERATORS, KINDS, Circuit, random_circuit
from graphut.experiments.tasks.netlists import library_circuit, library_circuits, read_circuit
from graphut.experiments.tasks.presets import CIRCUITS, Preset
from graphut.experiments.tasks.vocabulary import Vocabulary
from graphut.models.checked_config import option

LIBRARY = "circuitgraph"
"""The name that stands for all circuits that come with the package `circuitgraph`."""
_TRIES = 10_000  # random circuits drawn for each one needed, at most


def find_circuit(name: str | Path) -> Circuit:
    """Return a circuit from its name.

    The name is a kind of circuit and a number of bits, such as "adder-64"; a file, Verilog (`.v`)
    or ISCAS netlist (`.bench`); or the name of a circuit in the package `circuitgraph`.
    """
    if Path(name).suffix:
        return read_circuit(name)
    kind, _, bits = str(name).rpartition("-")
    if kind not in GENERATORS:
        return library_circuit(str(name))
    if not bits.isdecimal() or not int(bits):
        raise ValueError(f"{name}: {bits!r} must be a number of bits, as in {kind}-8")
    return GENERATORS[kind](int(bits))


@dataclass(frozen=True)
class CircuitSimulate(DrawnTask, GraphTask):
    """Predict the value of every gate of a logic circuit, given the bits at its inputs.

    Circuits for training are random and small; larger ones are for tests. Edges follow the wires,
    and each node has a self-loop. The depth of a gate is the number of gates on the longest path
    to it. `graphut eval RUN --data adder.v` reads a circuit of your own.

    Examples
    --------
    >>> task = CircuitSimulate(test_circuits="adder-1", vectors=1)
    >>> [graph] = task.test_sets["adder-1"]
    >>> [task.node_kinds.symbols[kind] for kind in graph.nodes]
    ['0', '1', '0', 'xor', 'and', 'and', 'xor', 'or']
    >>> graph.labels, graph.depth
    (array([0, 1, 0, 1, 0, 0, 1, 0]), array([0, 0, 0, 1, 1, 2, 2, 3]))
    """

    name: ClassVar[str] = "circuit-simulate"
    presets: ClassVar[dict[str, Preset]] = CIRCUITS
    node_kinds: ClassVar[Vocabulary] = Vocabulary(KINDS)
    answers: ClassVar[Vocabulary] = Vocabulary(["0", "1"])

    gates: str = option("6-60", "nodes of a random circuit: a range, or several, with commas")
    levels: int = option(20, "most levels of a random circuit", least=1)
    epoch_size: int = option(6400, "circuits in an epoch", least=1)
    held_out: int = option(500, "circuits in the validation set, and in the test set", least=1)
    test_circuits: str = option(
        "adder-64,multiplier-16,divider-16",
        f"further test sets, with commas: {', '.join(f'{name}-BITS' for name in GENERATORS)}, "
        f"files, names of circuits of the package {LIBRARY}, or {LIBRARY} for all of them",
    )
    vectors: int = option(16, "random bits at the inputs, for each of these circuits", least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._sizes
        names = [Path(name).absolute() if Path(name).suffix else name for name in self._named]
        object.__setattr__(self, "test_circuits", ",".join(map(str, names)))

    @property
    def _named(self) -> list[str]:
        return [name.strip() for name in self.test_circuits.split(",") if name.strip()]

    def check_files(self) -> None:
        """Raise an error if a test circuit cannot be read, or two test sets have the same name."""
        _ = self.test_sets
        for name in self._named:
            if name != LIBRARY:
                find_circuit(name)

    @property
    def _sizes(self) -> list[int]:
        return whole_numbers("gates", self.gates, 3)

    @property
    def test_sets(self) -> Mapping[str, list[LabelledGraph]]:
        names = self._named
        if LIBRARY in names:
            at = names.index(LIBRARY)
            names[at : at + 1] = library_circuits()
        sets = {Path(name).stem: partial(self.read, name) for name in names}
        if "test" in sets or len(sets) < len({*names}):
            raise ValueError(
                "test_circuits must be files of different names, and none may be named test; got "
                f"{self.test_circuits!r}"
            )
        return LazySets(self, sets)

    def draw(self, count: int, part: str, *stream: int) -> list[LabelledGraph]:
        random = np.random.default_rng([PARTS.index(part), *stream])
        return [self._draw_one(random) for _ in range(count)]

    def _draw_one(self, random: np.random.Generator) -> LabelledGraph:
        for _ in range(_TRIES):
            nodes = self._sizes[int(random.integers(len(self._sizes)))]
            circuit = random_circuit(nodes, random)
            if circuit.levels.max() <= self.levels:
                bits = random.integers(0, 2, (1, len(circuit.inputs)), np.int8)
                return circuit.labelled(bits, "random")[0]
        raise ValueError(
            f"random circuits of {self.gates} nodes have more than {self.levels} levels: raise "
            "levels, or lower gates"
        )

    def read(self, name: str) -> list[LabelledGraph]:
        """Find a circuit with `find_circuit`; return it with each of `vectors` random inputs."""
        circuit, stem = find_circuit(name), Path(name).stem
        random = np.random.default_rng([PARTS.index("test"), crc32(stem.encode())])
        bits = random.integers(0, 2, (self.vectors, len(circuit.inputs)), np.int8)
        return circuit.labelled(bits, stem)
