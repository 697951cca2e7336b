from __future__ import annotations

from graphut.experiments.wording import did_you_mean, flag


def test_did_you_mean_suggests_only_similar_words() -> None:
    assert did_you_mean("epoch", ["epochs", "seed"]) == "; did you mean 'epochs'?"
    assert did_you_mean("fly", ["epochs", "seed"]) == ""
    assert flag("long_name") == "--long-name"
