from __future__ import annotations

import json
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphut._files import read_json, write_json
from graphut.experiments.results.records import add_bench, add_run, read_records, short_json
from graphut.experiments.results.run_record import RunRecord

REPORT: dict[str, Any] = {
    "command": ["graphut", "bench", "model", "--out", "/home/me/x.json", "--dim", "8"],
    "bench": "model",
    "machine": {"date": "2026-01-01", "system": "Abacus OS", "cpu": "Abacus 9", "threads": 2},
    "rows": [{"dense_seconds": 1.23456789}],
}


def test_read_records_reads_what_add_run_writes(runs: dict[str, Path], tmp_path: Path) -> None:
    path = add_run(runs["small"], tmp_path / "kept")
    assert path == tmp_path / "kept" / "sort-small-seed0.json"
    assert path.stat().st_size < 50_000
    add_run(runs["small"], tmp_path / "kept")  # again
    add_run(runs["fixed"], tmp_path / "kept", "shallow")
    found = read_records(tmp_path / "kept")
    assert found.runs == [
        RunRecord.of(runs["fixed"], "shallow"), RunRecord.of(runs["small"])
    ]  # fmt: skip
    assert found.benches == []


def test_add_run_keeps_a_record_of_another_setup(runs: dict[str, Path], tmp_path: Path) -> None:
    path = add_run(runs["small"], tmp_path, "mine")
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match=r"mine\.json is the record of another setup"):
        add_run(runs["fixed"], tmp_path, "mine")
    assert path.read_bytes() == before


def test_add_run_refuses_a_name_in_another_folder(runs: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"name is that of a file.*got '\.\./mine'"):
        add_run(runs["small"], tmp_path / "kept", "../mine")
    assert [*tmp_path.iterdir()] == []


def test_add_bench_leaves_out_the_date(tmp_path: Path) -> None:
    write_json(tmp_path / "model-8.json", REPORT)
    path = add_bench(tmp_path / "model-8.json", tmp_path / "kept")
    assert path == tmp_path / "kept" / "bench" / "model-8.json"
    assert read_json(path) == {
        **REPORT,
        "command": ["graphut", "bench", "model", "--dim", "8"],
        "machine": {"cpu": "Abacus 9", "threads": 2},
        "rows": [{"dense_seconds": 1.23457}],
    }
    [bench] = read_records(tmp_path / "kept").benches
    assert (bench["bench"], bench["command"][2:]) == ("model", ["model", "--dim", "8"])


@pytest.mark.parametrize(
    ("report", "message"),
    [
        ({}, r"x\.json: it is no report of graphut bench: it has no 'command'"),
        (
            {**REPORT, "bench": "wings"},
            r"no table shows the benchmark 'wings', but those of attention",
        ),
        ({**REPORT, "machine": []}, r"x\.json: AttributeError"),
    ],
)
def test_add_bench_refuses_what_is_no_report(
    report: dict[str, Any], message: str, tmp_path: Path
) -> None:
    write_json(tmp_path / "x.json", report)
    with pytest.raises(ValueError, match=message):
        add_bench(tmp_path / "x.json", tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_read_records_names_a_broken_record(runs: dict[str, Path], tmp_path: Path) -> None:
    path = add_run(runs["small"], tmp_path)
    whole = path.read_text()
    path.write_text(whole.replace('"format": 1', '"format": 7'))
    with pytest.raises(ValueError, match=r"sort-small-seed0\.json: it is of format 7"):
        read_records(tmp_path)
    path.write_text(whole[:-9])
    with pytest.raises(ValueError, match=r"sort-small-seed0\.json is not a JSON file"):
        read_records(tmp_path)


def test_read_records_refuses_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere"):
        read_records(tmp_path / "nowhere")


def test_add_run_refuses_a_folder_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"it has no run\.json"):
        add_run(tmp_path, tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_add_run_makes_one_record_of_copies(runs: dict[str, Path], tmp_path: Path) -> None:
    copytree(runs["small"], tmp_path / "moved")
    first = add_run(runs["small"], tmp_path / "kept").read_bytes()
    assert add_run(tmp_path / "moved", tmp_path / "kept").read_bytes() == first


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)  # fmt: skip


@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_short_json_can_be_read(record: dict[str, Any]) -> None:
    text = short_json(record)
    assert json.loads(text) == record
    assert short_json(dict(reversed(record.items()))) == text


def test_short_json_writes_numbers_of_a_list_in_one_line() -> None:
    assert short_json({"b": [1, 2], "a": {"d": [{"z": 1, "y": 2}], "c": []}}) == (
        '{\n "a": {\n  "c": [],\n  "d": [\n   {"y": 2, "z": 1}\n  ]\n },\n "b": [1, 2]\n}'
    )


def test_add_bench_refuses_what_is_no_number(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps({**REPORT, "rows": [float("nan")]}))
    with pytest.raises(ValueError, match="not JSON compliant"):
        add_bench(tmp_path / "x.json", tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_read_records_refuses_a_list(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(ValueError, match=r"x\.json is no record: it holds list, no object"):
        read_records(tmp_path)


def test_add_bench_replaces_a_record_where_asked(tmp_path: Path) -> None:
    report = tmp_path / "model-8.json"
    write_json(report, REPORT)
    path = add_bench(report, tmp_path / "kept")
    before = path.read_bytes()
    write_json(report, {**REPORT, "rows": []})
    with pytest.raises(FileExistsError, match=r"model-8\.json is there, with other content"):
        add_bench(report, tmp_path / "kept")
    assert path.read_bytes() == before
    add_bench(report, tmp_path / "kept", replace=True)
    assert read_json(path)["rows"] == []
