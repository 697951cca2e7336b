from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("triton", reason="needs triton")

from graphut._files import read_json
from graphut.experiments.bench import gpu
from graphut.experiments.bench.gpu import NO_MEASUREMENT, TINY, Plan, main, measure, sections
from graphut.experiments.results.records import add_bench
from tests.attention.triton.interpreter import skip_unless_kernels_run

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_main_runs_everything_on_tiny_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    skip_unless_kernels_run()
    monkeypatch.chdir(tmp_path)  # where there are no tests to run
    assert main(["--tiny", "--out", "found.json", "--minutes", "60"]) == 0
    assert NO_MEASUREMENT in capsys.readouterr().out
    report = read_json(tmp_path / "found.json")
    figures = {row["section"]: row["figures"] for row in report["rows"]}
    assert [*figures] == [*sections(TINY)]
    assert not [name for name, found in figures.items() if "failed" in found], figures
    exact = figures["exactness, float32, 4 features a head"]
    assert exact.pop("same bits twice") is True
    assert len(exact) == 4 and max(exact.values()) < 1e-5
    assert "triton, ms" in figures["attention, rows, float32, d = 4"]
    with pytest.raises(ValueError, match="nothing of this is a measurement"):
        add_bench(tmp_path / "found.json", tmp_path)


def test_measure_goes_on_where_it_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def section(name: str) -> dict[str, Any]:
        done.append(name)
        if name == "b" and len(done) == 2:
            raise KeyboardInterrupt
        if name == "c":
            raise RuntimeError("too large")
        return {"figure": torch.inf}

    names = "abc"
    monkeypatch.setattr(
        gpu, "sections", lambda plan: {name: lambda name=name: section(name) for name in names}
    )
    out = tmp_path / "found.json"
    assert not measure(TINY, out, [], minutes=0)
    assert not done and not out.exists()
    with pytest.raises(KeyboardInterrupt):
        measure(TINY, out, [], minutes=1)
    assert measure(TINY, out, [], minutes=1)
    assert done == ["a", "b", "b", "c"]
    figures = [row["figures"] for row in read_json(out)["rows"]]
    assert figures == [{"figure": "inf"}] * 2 + [{"failed": "RuntimeError: too large"}]
    assert measure(TINY, out, [], minutes=1)  # what has failed is tried once more
    assert done[4:] == ["c"] and len(read_json(out)["rows"]) == 3


def test_measure_refuses_a_report_of_another_machine(tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    out.write_text('{"machine": {"gpu": "Loom 1"}, "rows": []}')
    with pytest.raises(ValueError, match="is of Loom 1, not of None"):
        measure(TINY, out, [], minutes=1)


def test_main_refuses_to_measure_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--out", "found.json"])
    assert "there is no CUDA device here: --tiny" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--tiny", "--out", "nowhere/found.json"])
    assert "--out nowhere/found.json: there is no such folder" in capsys.readouterr().err


def test_plan_has_sections_of_their_own() -> None:
    plan = Plan(device=torch.device("cpu"))
    assert {"ceilings", "waits", "training, 300 updates"} < {*sections(plan)}
    assert len(sections(plan)) == 2 + 9 + 1 + 4 + 3 + 12
