import json
import time
from collections.abc import Callable
from pathlib import Path

import networkx
import pytest
import torch.distributed as dist

from graphut.experiments.cli import main
from graphut.experiments.training.run_files import read_metrics
from tests.experiments.cli.tiny import MODEL
from tests.experiments.training.together import run_together

Command = Callable[..., str]
EXACT = ("loss", "accuracy", "encoder_steps")


def write_ring(path: Path) -> Path:
    """Write a ring of 40 nodes, whose class depends on the features of the next node."""
    graph = networkx.cycle_graph(40)
    for node, data in graph.nodes(data=True):
        data.update(feat=[node % 5 / 5, node % 2], label="even" if (node + 1) % 4 else "odd")
    path.write_text(json.dumps(networkx.node_link_data(graph, edges="edges")))
    return path


def test_training_on_parts_equals_training_on_the_whole_graph(
    tmp_path: Path, output: Command
) -> None:
    data, alone, run = write_ring(tmp_path / "ring.json"), tmp_path / "alone", tmp_path / "run"
    output("partition", data, "--parts", 2, "--out", tmp_path / "two")
    said = output(
        "partition", data, "--parts", 3, "--out", tmp_path / "three", "--method", "random"
    )
    assert said.startswith(f"3 parts in {tmp_path}/three: torchrun --nproc-per-node 3 -m graphut")
    options = ["train", "graphs", *MODEL, "--epochs", "2"]
    output(*options, "--data", data, "--out", alone)
    output(*options, "--data", data, "--out", alone, "--epochs", 4, "--resume")
    output("predict", alone, "--data", data, "--out", tmp_path / "alone.json")

    def command(*words: object) -> None:
        assert main([*map(str, words)]) == 0

    def begin() -> None:
        # Process 0 must not write the run before a slow process has read its options.
        time.sleep(0.5 * dist.get_rank())
        command(*options, "--data", tmp_path / "two", "--out", run)

    def resume() -> None:
        parts = tmp_path / "three"
        command(*options, "--data", parts, "--out", run, "--epochs", 4, "--resume")
        command("eval", run, "--set", "test")
        command("eval", run, "--data", parts)
        command("predict", run, "--data", parts, "--out", tmp_path / "found.json")

    run_together(begin, tmp_path)
    run_together(resume, tmp_path, count=3)
    for found, expected in zip(
        *(read_metrics(x / "metrics.jsonl") for x in (run, alone)), strict=True
    ):
        for name in EXACT:
            assert found[name] == pytest.approx(expected[name], rel=1e-4), name
        for name in ("accuracy", "macro_f1", "auc", "log_probability", "steps"):
            wanted = expected["validation"][name]
            assert found["validation"][name] == pytest.approx(wanted, rel=1e-4), name
    found, expected = (json.loads((tmp_path / f"{x}.json").read_text()) for x in ("found", "alone"))
    for row, other in zip(found, expected, strict=True):
        assert row.pop("graph") == "three" and other.pop("graph") == "ring.json"
        assert row.pop("class") == other.pop("class")
        assert row == pytest.approx(other, rel=1e-4)
    evaluations = [x / "evaluation-test.json" for x in (run, alone)]
    tests = [json.loads(path.read_text()) for path in evaluations]
    assert tests[0]["accuracy"] == tests[1]["accuracy"]
