from __future__ import annotations

import pytest
import torch

from graphut.experiments.bench.contender import UnavailableError
from graphut.experiments.bench.peers import room
from graphut.experiments.bench.peers.room import check_room

CPU = torch.device("cpu")


def test_what_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "free_bytes", lambda device: 2 << 30)
    check_room(1 << 30, CPU)
    with pytest.raises(UnavailableError, match="needs about 3 GiB, 2 GiB are free"):
        check_room(3 << 30, CPU)


def test_where_free_memory_is_unknown_all_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "free_bytes", lambda device: None)
    check_room(1 << 60, CPU)
