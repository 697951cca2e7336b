"""Simulation of logic circuits: predict the value of every gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar
from zlib import crc32

import numpy as np

from graphut.experiments.tasks.base import PARTS, DrawnTask, GraphTask, LabelledGraph
from graphut.experiments.tasks.circuits import GENERATORS, KINDS, Circuit, random_circuit
from graphut.experiments.tasks.presets import (
    CIRCUITS,
    NARROW_GRAPH_LAYERS,
    WAKING,
    WAKING_CIRCUITS,
    Preset,
    with_baselines,
)
from graphut.experiments.tasks.vocabulary import Vocabulary
from graphut.models.checked_config import option


@dataclass(frozen=True)
class CircuitSimulate(DrawnTask, GraphTask):
    """Predict the value of every gate of a logic circuit, given the bits at its inputs.

    Training circuits are random and small. Edges go along the wires, and each node has a self-loop.
    The depth of a gate is its level, the number of gates on the longest path to it.

    Examples
    --------
    >>> [graph] = CircuitSimulate(gates="4-4", held_out=1).test
    >>> graph.nodes, graph.labels, graph.depth
    """

    name: ClassVar[str] = "circuit-simulate"
    presets: ClassVar[dict[str, Preset]] = with_baselines(CIRCUITS, NARROW_GRAPH_LAYERS) | {
        WAKING: WAKING_CIRCUITS
    }
    node_kinds: ClassVar[Vocabulary] = Vocabulary(KINDS)
    answers: ClassVar[Vocabulary] = Vocabulary(["0", "1"])

    gates: str = option("6-60", "nodes of a random circuit: the fewest, a hyphen, and the most")
    levels: int = option(20, "largest number of levels of a random circuit", least=1)
    epoch_size: int = option(6400, "circuits in an epoch", least=1)
    held_out: int = option(500, "circuits in the validation set, and in the test set", least=1)
    test_circuits: str = option("adder-64,multiplier-16,divider-16", "circuits")
    vectors: int = option(16, "random bits", least=1)

    @property
    def test_sets(self) -> Mapping[str, list[LabelledGraph]]:
        """The test sets: `test` has random circuits, the others one circuit each."""
        names = [name.strip() for name in self.test_circuits.split(",") if name.strip()]
        return {"test": self.test} | {name: self._vectors(name) for name in names}

    def draw(self, count: int, part: str, *stream: int) -> list[LabelledGraph]:
        """Draw random circuits, each with random bits at its inputs."""
        random = np.random.default_rng([PARTS.index(part), *stream])
        least, most = map(int, self.gates.split("-"))
        graphs: list[LabelledGraph] = []
        while len(graphs) < count:
            circuit = random_circuit(int(random.integers(least, most + 1)), random)
            if circuit.levels.max() <= self.levels:
                bits = random.integers(0, 2, (1, len(circuit.inputs)), np.int8)
                graphs += circuit.labelled(bits, "random")
        return graphs

    def _vectors(self, name: str) -> list[LabelledGraph]:
        kind, _, bits = name.rpartition("-")
        circuit: Circuit = GENERATORS[kind](int(bits))
        random = np.random.default_rng([PARTS.index("test"), crc32(name.encode())])
        rows = random.integers(0, 2, (self.vectors, len(circuit.inputs)), np.int8)
        return circuit.labelled(rows, name)
