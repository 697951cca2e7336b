import subprocess
import sys
from pathlib import Path

import pytest
import torch

import graphut
from graphut.experiments.messages import percent, three_digits
from graphut.experiments.records import append_rows, check_table, describe_machine
from tests.helpers import read_rows


def test_numbers_in_cells() -> None:
    assert [*map(three_digits, (0.01234, 45.67, 1234.5))] == ["0.0123", "45.7", "1234"]
    assert [*map(percent, (0.0456, 1.0, 0.99996))] == ["4.56%", "100.00%", "99.99%"]


def test_append_rows_adds_new_columns_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    append_rows(path, [{"task": "sort", "options": '--data "a, b"'}, {"task": "copy"}])
    append_rows(path, [{"steps": 1 / 3, "task": "lte\nprogram", "gpu": None}])
    rows = read_rows(path)
    assert [*rows[0]] == ["task", "options", "steps", "gpu"]
    assert [[*row.values()] for row in rows] == [
        ["sort", '--data "a, b"', "", ""], ["copy", "", "", ""],
        ["lte\nprogram", "", "0.333333", ""],
    ]  # fmt: skip


def test_append_rows_reads_a_table_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("\ufefftask\nsort\n", encoding="utf-8")
    append_rows(path, [{"task": "copy"}])
    assert read_rows(path) == [{"task": "sort"}, {"task": "copy"}]


def test_append_rows_of_two_processes_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    code = (
        "import sys; from graphut.experiments.records import append_rows\n"
        "for n in range(40): append_rows(sys.argv[1], [{'who': sys.argv[2], sys.argv[2]: n}])"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", code, str(path), who]) for who in ("one", "two")
    ]
    assert [process.wait() for process in processes] == [0, 0]
    rows = read_rows(path)
    for who in ("one", "two"):
        assert [row[who] for row in rows if row["who"] == who] == [str(n) for n in range(40)]


@pytest.mark.parametrize("text", ["a,a\n", "a,b\n1\n", "a\n1,2\n", 'a\n"1\n', "a\n\xe9\n"])
def test_append_rows_refuses_what_is_no_table(text: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_bytes(text.encode("latin-1"))
    for function in (check_table, lambda path: append_rows(path, [{"a": 1}])):
        with pytest.raises(ValueError, match=r"runs.csv is not a table of results: "):
            function(path)
    assert path.read_bytes() == text.encode("latin-1")


def test_check_table_needs_a_folder_and_takes_an_empty_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="make its folder"):
        check_table(tmp_path / "nowhere" / "runs.csv")
    check_table(path := tmp_path / "runs.csv")
    path.touch()
    check_table(path)
    append_rows(path, [{"a": 1}])
    assert path.read_text() == "a\n1\n"


def test_describe_machine_has_versions_and_threads() -> None:
    found = describe_machine(torch.device("cpu"))
    assert found["graphut"] == graphut.__version__
    assert found["torch"] == torch.__version__
    assert found["threads"] == torch.get_num_threads()
    assert found["gpu"] is None and found["cpu"]
