from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("triton", reason="needs triton")

from graphut.experiments.bench import gpu
from graphut.experiments.bench.gpu import TINY, measure_missing, sections
from graphut.experiments.cli import main
from tests.attention.triton.interpreter import skip_unless_kernels_run
from tests.gpu_stand_in import gpu_stand_in
from tests.helpers import read_rows

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_all_sections_run_on_tiny_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    skip_unless_kernels_run()
    out = tmp_path / "found.csv"
    assert main(["bench", "gpu", "--tiny", "--results", str(out), "--minutes", "60"]) == 0
    assert "these figures are not a measurement" in capsys.readouterr().err
    rows = read_rows(out)
    workloads = list(dict.fromkeys(row["workload"] for row in rows))
    assert [name for name in workloads if not name.endswith("backward")] == [*sections(TINY)]
    assert not [row for row in rows if row["contender"] == "failed"]
    timed = [row for row in rows if row["contender"] == "triton"]
    assert len(timed) == 2 and all(float(row["ms"]) > 0 for row in timed)
    assert {row["command"] for row in rows} == {"graphut bench gpu"}


def test_waking_measures_a_program_of_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    skip_unless_kernels_run()
    monkeypatch.setattr(gpu, "measure", lambda _, contenders, **__: [{} for _ in contenders])
    monkeypatch.setattr("graphut.nn.gpu.settings.ROUNDS", 2)
    with gpu_stand_in() as device:
        rows = gpu.waking(replace(TINY, device=torch.device("cuda")), "a grid", 2)
    assert "settle" in {name for name, _ in device.launches}
    assert rows[1]["error"] < 1e-6 and rows[2]["value"] >= rows[3]["value"] > 0


def test_measure_missing_continues_after_an_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def section(name: str) -> list[dict[str, Any]]:
        done.append(name)
        if name == "b" and len(done) == 2:
            raise KeyboardInterrupt
        if name == "c":
            raise RuntimeError("too large")
        return [{"contender": "figure", "value": 2.0}]

    monkeypatch.setattr(
        gpu, "sections", lambda plan: {name: lambda name=name: section(name) for name in "abc"}
    )
    out, said = tmp_path / "found.csv", list[str]()
    assert not measure_missing(TINY, out, 0, said.append)
    assert not done and not out.exists()
    with pytest.raises(KeyboardInterrupt):
        measure_missing(TINY, out, 1, said.append)
    assert not measure_missing(TINY, out, 1, said.append)
    assert done == ["a", "b", "b", "c"] and said[0].startswith("a\n")
    found = [(row["workload"], row["contender"], row["value"]) for row in read_rows(out)]
    assert found == [("a", "figure", "2"), ("b", "figure", "2"), ("c", "failed", "")]
    assert read_rows(out)[2]["note"] == "RuntimeError: too large"
    assert not measure_missing(TINY, out, 1, said.append)  # a failed section is tried again
    assert done[4:] == ["c"]


def test_measure_missing_repeats_sections_of_another_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "found.csv"
    out.write_text("bench,workload,contender,gpu\ngpu,a,figure,Loom 1\n")
    table = tmp_path / "evaluations.csv"
    table.write_text("task,gpu\nsort,\n")  # as `graphut eval` writes it
    monkeypatch.setattr(gpu, "sections", lambda plan: {"a": lambda: [{"contender": "figure"}]})
    assert measure_missing(TINY, out, 1, print)
    assert [row["gpu"] for row in read_rows(out)] == ["Loom 1", ""]
    assert measure_missing(TINY, table, 1, print)
    assert [row["workload"] for row in read_rows(table)] == ["", "a"]


def test_bench_gpu_refuses_to_measure_without_a_gpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "gpu", "--results", str(tmp_path / "found.csv")]) == 2
    assert "there is no CUDA device: --tiny" in capsys.readouterr().err
