from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from graphut.attention import edge_attention
from graphut.experiments.cli import main
from graphut.topology import parse
from graphut.topology.registry import registry
from tests.experiments.cli.tiny import TINY


def test_topology_show_prints_the_numbers(output: Callable[..., str]) -> None:
    assert output("topology", "show", "window:3|global:0").splitlines() == [
        "window:3|global:0 over 24 tokens",
        "edges       196, 34.0% of all pairs",
        "in-degrees  5 to 24, 8.17 on average",
        "diameter    2",
        "after 2 steps each token depends on all tokens",
    ]
    found = output("topology", "show", "star", "--nodes", "1")
    assert found.startswith("star over 1 token and 1 extra node\n")
    *_, diameter, last = output("topology", "show", "causal", "--nodes", "4").splitlines()
    assert diameter == "diameter    1, over the pairs that are connected"
    assert last == "token 0 never depends on token 1"


@pytest.mark.parametrize("spec", ["global:99", "window:2&global:0"])
def test_topology_show_warns_of_nodes_without_in_edges(
    spec: str, output: Callable[..., str]
) -> None:
    message = f"{spec} has nodes without in-edges among 24 tokens: a model refuses such"
    with pytest.warns(UserWarning, match=re.escape(message)):
        assert output("topology", "show", spec).startswith(f"{spec} over 24 tokens\nedges ")
    assert main(["topology", "show", f"{spec}|window:0"]) == 0
    layout, feat = parse(spec).layout([24]), torch.zeros(24, 1, 4)
    with pytest.raises(ValueError, match="in-edge"):
        edge_attention(layout, feat, feat, feat)


def test_topology_show_help_lists_specs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["topology", "show", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for name in registry:
        assert re.search(rf"[ ,]{name}[:,@;]", text), name
    assert "window:radius" in text


def test_topology_show_draws_a_picture(tmp_path: Path) -> None:
    out = tmp_path / "topology.png"
    assert main(["topology", "show", "bigbird:1,1,2@7", "--nodes", "9", "--out", str(out)]) == 0
    assert out.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["windw:3"], "unknown topology 'windw'; known are ancestors, axial, "),
        (["window:-3"], "window: radius must not be negative, got -3"),
        (["window:3", "--nodes", "0"], "n must be between 1 and 2048 tokens, got 0"),
        (["causal", "--out", "x.foo"], "cannot draw into x.foo: 'foo' is not supported"),
    ],
)
def test_topology_show_refuses_bad_input(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topology", "show", *argv]) == 2
    assert capsys.readouterr().err.startswith(f"graphut: {message}")


ARGV = ("topology", "compare", "complete", "window:1|global:0", "--task", "sort", *TINY)


def test_compare_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ARGV]) == 0
    out, err = capsys.readouterr()
    head, *rows = out.splitlines()
    assert head.startswith("encoder topology ")
    assert [row.split()[0] for row in rows] == ["complete", "window:1|global:0"]
    assert "window:1|global:0, seed 0: epoch 2: loss" in err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["complete"], "the following arguments are required: --task"),
        (["complete", "--task", "knit"], "argument --task: invalid choice: 'knit'"),
        (["--task", "sort"], "the following arguments are required: SPEC"),
        (["complete", "--task", "sort", "--seed", "3"], "unrecognized arguments: --seed"),
        (["complete", "--task", "sort", "--encoder-topology", "star"], "unrecognized arguments"),
    ],
)
def test_add_compare_refuses_a_wrong_command_line(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["topology", "compare", *argv])
    assert message in capsys.readouterr().err
