from pathlib import Path

import pytest
import torch

from graphut.experiments.bench.options import WakingOptions
from graphut.experiments.bench.waking import EVERY, WAKING, bench_waking
from graphut.models import UniversalGraphTransformer, UniversalGraphTransformerConfig


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A folder with a small model whose nodes wake."""
    torch.manual_seed(0)
    config = UniversalGraphTransformerConfig(
        num_kinds=2, classes=2, d_model=8, d_hidden=16, adaptive=False, step_signal="none",
        inject_input=True, evaluation_rule="event_driven:tol=0.6",
    )  # fmt: skip
    UniversalGraphTransformer(config).save_pretrained(tmp_path)
    return tmp_path


def test_bench_waking_compares_times_and_answers(run: Path) -> None:
    rows = bench_waking(WakingOptions(run=str(run), nodes=20, scaling=(10, 30), repeats=1))
    assert [row["contender"] for row in rows[:6]] == [WAKING, EVERY] * 3
    for name, row in zip(("near", "grid", "delaunay"), rows[:6:2], strict=True):
        assert row["workload"].startswith(f"{name}, 20 nodes: ") and 0 <= row["error"] <= 1
    updates, rounds = rows[6:10], rows[10:]
    assert [row["contender"] for row in updates] == [
        "path, 10 nodes", "path, 30 nodes", "grid, 10 nodes", "grid, 30 nodes"
    ]  # fmt: skip
    assert {row["workload"] for row in rounds} == {"a round"}
    for update, per_round in zip(updates, rounds, strict=True):
        awake = float(per_round["contender"].split(", ")[2].split()[0])
        assert per_round["ms"] == pytest.approx(update["ms"] * awake / 1000, rel=0.05 / awake)
