from __future__ import annotations

from graphut.experiments.messages import flag


def test_flag_of_a_field() -> None:
    assert flag("long_name") == "--long-name"
