from __future__ import annotations

import json
from typing import Any

import pytest

from graphut.experiments.bench.processes import bench_processes
from graphut.experiments.bench.report import report_text
from graphut.experiments.bench.workloads import Sizes


def test_bench_processes_compares_two_with_one() -> None:
    found = bench_processes(sizes=Sizes(3, 2, 4), dim=8, heads=2, repeats=1)
    assert [(row["processes"], row["threads"]) for row in found["rows"]] == [(1, 2), (2, 1)]
    one, two = (row["seconds"]["median"] for row in found["rows"])
    assert json.loads(json.dumps(found))["times_faster"] == one / two
    text = report_text(found)
    assert text.startswith("an update on 3x2-4 tokens, 8 features in 2 heads")
    assert text.splitlines()[-1].startswith("2 processes are ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"processes": 1}, "processes must be at least 2, got 1"),
        ({"dim": -8}, "d_model must be at least 1; got -8"),
    ],
)
def test_bench_processes_refuses_impossible_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bench_processes(sizes=Sizes(3, 2, 4), **options)
