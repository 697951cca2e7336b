from __future__ import annotations

import sys

import pytest

from graphut.experiments.bench.contender import UnavailableError
from graphut.experiments.bench.peers.pyg import prepare_pyg
from tests.experiments.bench.cases import problem


def test_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_geometric.nn", None)
    monkeypatch.setitem(sys.modules, "torch_geometric", None)
    with pytest.raises(UnavailableError, match="not installed: pip install torch_geometric"):
        prepare_pyg(problem())
