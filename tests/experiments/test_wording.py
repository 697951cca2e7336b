from __future__ import annotations

from graphut.experiments.wording import counted, flag


def test_flag() -> None:
    assert flag("long_name") == "--long-name"


def test_counted() -> None:
    assert [counted(count, "epoch") for count in (0, 1, 2)] == ["0 epochs", "1 epoch", "2 epochs"]
