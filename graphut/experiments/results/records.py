"""The folder of all records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from graphut.experiments.results.benchmark import BenchRecord
from graphut.experiments.results.format import read_record, write_record
from graphut.experiments.results.run_record import RunRecord

RecordT = TypeVar("RecordT")
BENCH = "bench"


@dataclass(frozen=True)
class Records:
    """What was measured.

    Parameters
    ----------
    runs : list of RunRecord
        Runs, by name.
    benches : list of BenchRecord
        Benchmarks, by name.
    """

    runs: list[RunRecord]
    benches: list[BenchRecord]


def read_records(folder: str | Path) -> Records:
    """All records of a folder: those of runs in it, those of benchmarks in its folder `bench`.

    Raises
    ------
    FileNotFoundError
        If there is no such folder.
    ValueError
        If a file is no record of this version; the message names it.
    """
    if not Path(folder).is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    return Records(
        _read(Path(folder), RunRecord.from_dict), _read(Path(folder, BENCH), BenchRecord.from_dict)
    )


def add_run(run: str | Path, folder: str | Path, name: str | None = None) -> Path:
    """Write the record of a run.

    Parameters
    ----------
    run : str or Path
        The run's folder.
    folder : str or Path
        That of the records; made if it is not there.
    name : str, optional
        Of the record; made of what was asked for, if not given.

    Returns
    -------
    Path
        The file, which a record of the same setup may have had before.

    Raises
    ------
    FileExistsError
        If there is a record of this name, and another setup.
    ValueError
        If the name is that of a file in another folder.
    """
    record = RunRecord.of(run, name)
    if Path(record.name).name != record.name:
        raise ValueError(f"a record's name is that of a file, and of no other folder; got {name!r}")
    path = Path(folder, f"{record.name}.json")
    if path.exists() and _record(path, RunRecord.from_dict).setup != record.setup:
        raise FileExistsError(f"{path} is the record of another setup: choose another --name")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_record(path, record.to_dict())
    return path


def add_bench(report: str | Path, folder: str | Path) -> Path:
    """Write the record of a benchmark, under the name of the report's file.

    Parameters
    ----------
    report : str or Path
        What `graphut bench --out` has written.
    folder : str or Path
        That of the records; made if it is not there.
    """
    record = _record(Path(report), BenchRecord.from_dict)
    path = Path(folder, BENCH, f"{record.name}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_record(path, record.to_dict())
    return path


def _read(folder: Path, make: Callable[[str, dict[str, Any]], RecordT]) -> list[RecordT]:
    return [_record(path, make) for path in sorted(folder.glob("*.json"))]


def _record(path: Path, make: Callable[[str, dict[str, Any]], RecordT]) -> RecordT:
    state = read_record(path)
    try:
        return make(path.stem, state)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
