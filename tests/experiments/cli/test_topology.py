import re
from collections.abc import Callable
from pathlib import Path

import pytest

from graphut.experiments.cli import main
from graphut.topology.registry import registry


def test_topology_show_prints_the_numbers_and_draws(
    output: Callable[..., str], tmp_path: Path
) -> None:
    output("topology", "bigbird:1,1,2@7", "--nodes", "9", "--out", tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert output("topology", "window:3|global:0").splitlines() == [
        "window:3|global:0 over 24 tokens",
        "edges       196, 34.0% of all pairs",
        "in-degrees  5 to 24, 8.17 on average",
        "diameter    2",
        "after 2 steps each token depends on all tokens",
    ]
    found = output("topology", "star", "--nodes", "1")
    assert found.startswith("star over 1 token and 1 extra node\n")
    *_, diameter, last = output("topology", "causal", "--nodes", "4").splitlines()
    assert diameter == "diameter    1, over the pairs that are connected"
    assert last == "token 0 never depends on token 1"


def test_topology_warns_of_nodes_without_in_edges(output: Callable[..., str]) -> None:
    spec = "window:2&global:0"
    message = f"{spec} has nodes without in-edges among 24 tokens: a model refuses such"
    with pytest.warns(UserWarning, match=re.escape(message)):
        assert output("topology", spec).startswith(f"{spec} over 24 tokens\nedges ")
    assert main(["topology", f"{spec}|window:0"]) == 0


def test_topology_show_lists_specs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", "?"]) == 2
    text = " ".join(capsys.readouterr().err.split())
    for name in registry:
        assert re.search(rf" {name}[,;]", text), name
