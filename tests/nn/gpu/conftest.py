from collections.abc import Iterator
from typing import Any
from weakref import WeakSet

import pytest


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Iterator[WeakSet[Any]]:
    """The programs that exist; at the beginning there are none."""
    from graphut.nn.gpu import replay

    made: WeakSet[Any] = WeakSet()
    make = replay.Program.__init__

    def record(self: Any, *arguments: Any) -> None:
        made.add(self)
        make(self, *arguments)

    monkeypatch.setattr(replay.Program, "__init__", record)
    monkeypatch.setattr(replay, "idle", [])
    yield made
    replay.release()
