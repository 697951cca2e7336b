from __future__ import annotations

from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import torch

from graphut.experiments.bench import parts
from graphut.experiments.bench.parts import FAMILIES, bench_parts, make_edges
from graphut.experiments.cli import main
from tests.experiments.training.together import run_together


@pytest.mark.parametrize("family", FAMILIES)
def test_make_edges_has_both_directions_and_self_loops(family: str) -> None:
    edges = make_edges(family, 50)
    pairs = {tuple(pair) for pair in edges.T.tolist()}
    assert len(pairs) == edges.shape[1] and pairs == {(b, a) for a, b in pairs}
    assert {(node, node) for node in range(50)} <= pairs
    assert edges.min() == 0 and edges.max() == 49


def test_make_edges_of_a_grid() -> None:
    assert np.bincount(make_edges("grid", 9)[1]).tolist() == [3, 4, 3, 4, 5, 4, 3, 4, 3]


def test_bench_parts_compares_and_counts_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A fork waits for ever for the threads of its parent.
    monkeypatch.setattr(torch, "set_num_threads", lambda number: None)

    def check() -> None:
        rows = bench_parts(60, families=["grid"], dim=4, heads=2, repeats=1)
        names = ["1 process, 2 threads", "2 processes, 1 thread"]
        assert [row["contender"] for row in rows[:2]] == names
        assert all(row["ms"] > 0 for row in rows[:2])
        sent = [row["value"] for row in rows[2:]]
        assert len(sent) == 8 and sent == sorted(sent, reverse=True) and sent[0] > sent[-1]

    run_together(check, tmp_path)


def test_bench_parts_refuses_another_loss_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "set_num_threads", lambda number: None)
    losses = iter(map(torch.tensor, (1.0, 2.0)))
    monkeypatch.setattr(parts, "all_reduce_sum", lambda loss: next(losses))

    def check() -> None:
        with redirect_stderr(StringIO()) as said:
            assert main(["bench", "parts", "--nodes", "60", "--dim", "4", "--heads", "2"]) == 2
        assert said.getvalue() == "graphut: the loss of the parts is 2.0, but of the graph 1.0\n"

    run_together(check, tmp_path)


def test_bench_parts_needs_processes() -> None:
    with pytest.raises(ValueError, match="there is one process: torchrun --nproc-per-node 2"):
        bench_parts(5, dim=4, heads=2, repeats=1)
