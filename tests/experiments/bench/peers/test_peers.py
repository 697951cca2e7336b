"""What holds for every peer: the numbers of the reference."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch

from graphut.experiments.bench.contender import Entry, UnavailableError
from graphut.experiments.bench.gate import largest_error, reference
from graphut.experiments.bench.peers import PEERS
from graphut.topology import Topology
from tests.experiments.bench.cases import TOPOLOGIES, problem

HERE = [
    name for name in PEERS if name != "flex" and (name != "pyg" or find_spec("torch_geometric"))
]


@pytest.mark.parametrize("fraction", [1.0, 0.4])
@pytest.mark.parametrize("topology", TOPOLOGIES, ids=str)
@pytest.mark.parametrize("name", HERE)
def test_output_and_gradients(name: str, topology: Topology, fraction: float) -> None:
    case = problem(topology=topology, fraction=fraction)
    entry = Entry(case, PEERS[name](case))
    assert largest_error(entry.packed(), reference(case)) < 1e-12


@pytest.mark.parametrize("name", HERE)
def test_a_bias_is_not_theirs(name: str) -> None:
    with pytest.raises(UnavailableError, match="takes no edge bias"):
        PEERS[name](problem(biased=True))


@pytest.mark.gpu
@pytest.mark.parametrize("name", PEERS)
def test_on_a_gpu(name: str) -> None:
    case = problem(device=torch.device("cuda"), dtype=torch.float32, dim=32)
    entry = Entry(case, PEERS[name](case))
    assert largest_error(entry.packed(), reference(case)) < 1e-5
