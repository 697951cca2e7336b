from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphut.experiments.results.page import rebuild, stale_tables

PROSE = st.text(st.sampled_from("ab\n |#*<!-"), max_size=20)


@given(PROSE, PROSE, PROSE, st.text("| x\n", max_size=9), st.text("| y\\1\n", max_size=9))
def test_rebuild_changes_nothing_but_tables(
    before: str, between: str, after: str, old: str, new: str
) -> None:
    def page(first: str) -> str:
        return (
            f"{before}<!-- table: a -->\n{first}<!-- end -->{between}"
            f"<!-- table: b -->\n<!-- end -->{after}"
        )

    tables = {"a": new, "b": "| 2 |"}
    built = rebuild(page(old), tables)
    assert built == page(f"\n{new}\n\n").replace("b -->\n<!", "b -->\n\n| 2 |\n\n<!")
    assert rebuild(built, tables) == built
    assert stale_tables(built, tables) == []
    assert stale_tables(page(f"\n{new}\n\n"), tables) == ["b"]


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("", "has the table 'a' 0 times"),
        (2 * "<!-- table: a -->\n<!-- end -->", "has the table 'a' 2 times"),
        ("<!-- table: a -->\n<!-- end --><!-- end -->", "a mark without its other one"),
        ("<!-- table: a -->\n", "a mark without its other one"),
        ("<!-- table: b -->\n<!-- end -->", r"has a table 'b'; known are: a"),
    ],
)
def test_rebuild_and_stale_tables_refuse_wrong_marks(page: str, message: str) -> None:
    for act in (rebuild, stale_tables):
        with pytest.raises(ValueError, match=message):
            act(page, {"a": "| 1 |"})
