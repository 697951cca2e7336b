from __future__ import annotations

from graphut.experiments.wording import did_you_mean, flag, pluralize


def test_flag() -> None:
    assert flag("long_name") == "--long-name"


def test_counted() -> None:
    assert [pluralize(count, "epoch") for count in (0, 1, 2)] == ["0 epochs", "1 epoch", "2 epochs"]


def test_did_you_mean_only_what_is_alike() -> None:
    assert did_you_mean("epoch", ["epochs", "seed"]) == "; did you mean 'epochs'?"
    assert did_you_mean("fly", ["epochs", "seed"]) == ""
