import re
import shlex
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch

from graphut.attention import edge_attention
from graphut.experiments.cli import main
from graphut.experiments.tables import three_digits
from graphut.experiments.tasks import Text
from graphut.experiments.training import Run
from graphut.topology import Topology, parse
from graphut.topology.registry import registry
from tests.helpers import refuses


def test_topology_show_prints_the_numbers_and_draws(
    output: Callable[..., str], tmp_path: Path
) -> None:
    output("topology", "show", "bigbird:1,1,2@7", "--nodes", "9", "--out", tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
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
    refuses("in-edge", edge_attention, layout, feat, feat, feat)


def test_topology_show_lists_specs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", "show", "?"]) == 2
    text = " ".join(capsys.readouterr().err.split())
    for name in registry:
        assert re.search(rf" {name}[:@; ]", text), name
    assert "window:radius" in text


def num_edges(example: Any, topology: Topology) -> int:
    """The edges of a text, or of a graph and those that a topology adds."""
    if isinstance(example, Text):
        return topology.num_edges(len(example.tokens))
    added = topology.mask(len(example.nodes)).argwhere().flip(1).tolist()
    return len({*map(tuple, example.edges.T.tolist()), *map(tuple, added)})


MODEL = shlex.split("--d-model 8 --num-heads 2 --d-hidden 8 --max-steps 2 --epochs 1 --device cpu")


@pytest.mark.parametrize(
    ("specs", "options", "columns"),
    [
        (
            ["causal", "window:1&causal"],
            "char-lm --data text.txt --window 16 --epoch-size 8",
            ["nats", "accuracy", "steps"],
        ),
        (
            ["window:0", "complete"],
            "graph-distance --sizes 6-6 --epoch-size 16 --held-out 4 --families path "
            "--test-sizes 12 --test-families near --test-nodes 24",
            ["accuracy", "graph accuracy", "rank correlation"],
        ),
    ],
)
def test_compare_takes_language_models_and_tasks_on_graphs(
    specs: list[str],
    options: str,
    columns: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    output: Callable[..., str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("to be, or not to be. " * 100)
    argv = ["topology", "compare", *specs, "--out", "runs", "--task", *shlex.split(options), *MODEL]
    head, *rows = output(*argv).splitlines()
    assert all(column in head for column in columns)
    for number, (spec, row) in enumerate(zip(specs, rows, strict=True), start=1):
        run = Run.open(f"runs/{number}-seed-0")
        assert run.model().config.topology == spec
        edges = fmean(num_edges(example, parse(spec)) for example in run.task().test)
        assert row.split()[:2] == [spec, three_digits(edges)]
