from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphut.experiments.results.format import _text, read_record, write_record

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)  # fmt: skip


@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_what_is_written_is_read(record: dict[str, Any]) -> None:
    text = _text(record)
    assert json.loads(text) == record
    assert _text(dict(reversed(record.items()))) == text


def test_numbers_of_a_list_share_a_line(tmp_path: Path) -> None:
    write_record(tmp_path / "x.json", {"b": [1, 2], "a": {"d": [{"z": 1, "y": 2}], "c": []}})
    assert (tmp_path / "x.json").read_text() == (
        '{\n "a": {\n  "c": [],\n  "d": [\n   {"y": 2, "z": 1}\n  ]\n },\n "b": [1, 2]\n}\n'
    )
    assert read_record(tmp_path / "x.json") == {
        "a": {"c": [], "d": [{"y": 2, "z": 1}]},
        "b": [1, 2],
    }


def test_what_is_no_number_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_record(tmp_path / "x.json", {"a": float("nan")})
    assert not (tmp_path / "x.json").exists()


def test_a_list_is_no_record(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(ValueError, match=r"x\.json is no record: it holds list, no object"):
        read_record(tmp_path / "x.json")
