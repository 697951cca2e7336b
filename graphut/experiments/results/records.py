"""The folder of all records: small files of strict JSON, one for each run and each benchmark."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from graphut._files import read_json, reraise_for_file, write_atomically
from graphut.experiments.results.run_record import RunRecord, rounded

RecordT = TypeVar("RecordT")
_BENCH = "bench"
_KINDS = ("attention", "model", "scaling", "layers", "gpu")
_LEFT_OUT = ("date", "system")


@dataclass(frozen=True)
class Records:
    """All records, by name: those of runs, and the reports of benchmarks."""

    runs: list[RunRecord]
    benches: list[dict[str, Any]]


def bench_record(name: str, report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a report of `graphut bench --out`: without the date, and rounded."""
    missing = [key for key in ("command", "bench", "machine", "rows") if key not in report]
    if missing:
        raise ValueError(f"it is no report of graphut bench: it has no {missing[0]!r}")
    if report["bench"] not in _KINDS:
        known = ", ".join(_KINDS)
        raise ValueError(f"no table shows the benchmark {report['bench']!r}, but those of {known}")
    if report.get("note"):
        raise ValueError(report["note"])
    machine = {key: value for key, value in report["machine"].items() if key not in _LEFT_OUT}
    command = [word for word in report["command"] if not word.startswith("--out=")]
    if "--out" in command:
        index = command.index("--out")
        del command[index : index + 2]
    return rounded({**report, "machine": machine, "command": command})


def read_records(folder: str | Path) -> Records:
    """Read the records of runs in a folder, and those of benchmarks in its folder `bench`.

    Raise `ValueError`, which names the file, if one is no record of this version.
    """
    if not Path(folder).is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    runs, benches = Path(folder).glob("*.json"), Path(folder, _BENCH).glob("*.json")
    return Records(
        [_read(path, RunRecord.from_dict) for path in sorted(runs)],
        [_read(path, bench_record) for path in sorted(benches)],
    )


def add_run(
    run: str | Path, folder: str | Path, name: str | None = None, *, replace: bool = False
) -> Path:
    """Write the record of the run in a folder, and return its path.

    The folder of the records is made if it is not there. The name of the record is made of the
    run's options, if none is given. Raise `FileExistsError` if there is a record of this name with
    other content, unless it is to be replaced, and `ValueError` if the run did not go from first
    weights of its own to its end: the tables compare runs from scratch.
    """
    record = RunRecord.of(run, name)
    if record.history:
        raise ValueError(
            f"the run in {run} began with other weights, or was made longer: no table has a place "
            "for it, since its options alone do not make it again"
        )
    if Path(record.name).name != record.name:
        raise ValueError(f"a record's name is that of a file, and of no other folder; got {name!r}")
    path = Path(folder, f"{record.name}.json")
    if not replace and path.exists() and _read(path, RunRecord.from_dict).setup != record.setup:
        raise FileExistsError(f"{path} is the record of another setup: choose another --name")
    return _write(path, record.to_dict(), replace)


def add_bench(report: str | Path, folder: str | Path, *, replace: bool = False) -> Path:
    """Write the record of a report by `graphut bench --out`, under the name of its file.

    Raise `FileExistsError` if there is a record with other content, unless it is to be replaced.
    """
    record = _read(Path(report), bench_record)
    return _write(Path(folder, _BENCH, f"{Path(report).stem}.json"), record, replace)


def _read(path: Path, make: Callable[[str, dict[str, Any]], RecordT]) -> RecordT:
    state = read_json(path)
    if not isinstance(state, dict):
        raise ValueError(f"{path} is no record: it holds {type(state).__name__}, no object")
    with reraise_for_file(path, ""):
        return make(path.stem, state)


def _write(path: Path, record: dict[str, Any], replace: bool) -> Path:
    data = f"{short_json(record)}\n".encode()
    if not replace and path.exists() and path.read_bytes() != data:
        raise FileExistsError(f"{path} is there, with other content: --replace writes over it")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, data)
    return path


def short_json(value: Any, margin: str = "") -> str:
    """Return strict JSON with sorted keys; a list or object without inner ones takes one line.

    Examples
    --------
    >>> print(short_json({"b": [1, 2], "a": {}}))
    {
     "a": {},
     "b": [1, 2]
    }
    """
    inner = value.values() if isinstance(value, dict) else value
    if not isinstance(value, (dict, list)) or not any(isinstance(x, (dict, list)) for x in inner):
        return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)
    deeper = margin + " "
    if isinstance(value, list):
        lines = [short_json(x, deeper) for x in value]
    else:
        lines = [f"{json.dumps(key)}: {short_json(value[key], deeper)}" for key in sorted(value)]
    opening, closing = "[]" if isinstance(value, list) else "{}"
    body = ",\n".join(deeper + line for line in lines)
    return f"{opening}\n{body}\n{margin}{closing}"
