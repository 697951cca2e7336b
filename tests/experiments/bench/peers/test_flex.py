from __future__ import annotations

import sys

import pytest
import torch

from graphut.experiments.bench.contender import Entry, UnavailableError
from graphut.experiments.bench.gate import largest_error, reference
from graphut.experiments.bench.peers.flex import flex_contender, prepare_flex
from graphut.topology import Topology
from tests.experiments.bench.cases import TOPOLOGIES, problem


def test_not_on_the_cpu() -> None:
    with pytest.raises(UnavailableError, match="no backward on the CPU"):
        prepare_flex(problem())


def test_an_older_torch_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.nn.attention.flex_attention", None)
    with pytest.raises(UnavailableError, match=r"came with torch 2\.5"):
        flex_contender(problem(), lambda kernel: kernel)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("fraction", [1.0, 0.4])
@pytest.mark.parametrize("topology", TOPOLOGIES, ids=str)
def test_the_masks_are_right(topology: Topology, fraction: float) -> None:
    case = problem(topology=topology, fraction=fraction, dtype=torch.float32, forward_only=True)
    entry = Entry(case, flex_contender(case, lambda kernel: kernel))
    assert largest_error(entry.packed(), reference(case)) < 1e-5
