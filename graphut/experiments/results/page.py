"""A page of prose, in which tables stand between marks."""

from __future__ import annotations

import re
from collections.abc import Mapping

_TABLE = re.compile(r"(<!-- table: (\S+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
_MARK = re.compile(r"<!-- (?:table: \S+|end) -->")


def rebuild(page: str, tables: Mapping[str, str]) -> str:
    """The page with all tables made anew, and nothing else changed.

    Parameters
    ----------
    page : str
        The old page. A table stands between the lines `<!-- table: NAME -->` and `<!-- end -->`.
    tables : mapping of str to str
        What is to stand there, by name.

    Raises
    ------
    ValueError
        If a mark is without its other one, or the page has not each table exactly once.

    Examples
    --------
    >>> rebuild("So:\\n<!-- table: a -->\\n<!-- end -->\\n", {"a": "| 1 |"})
    'So:\\n<!-- table: a -->\\n\\n| 1 |\\n\\n<!-- end -->\\n'
    """
    _check(page, tables)
    return _TABLE.sub(lambda found: f"{found[1]}\n{tables[found[2]]}\n\n{found[4]}", page)


def stale_tables(page: str, tables: Mapping[str, str]) -> list[str]:
    """Names of the tables that are not as they would be rebuilt.

    Examples
    --------
    >>> stale_tables("<!-- table: a -->\\n\\n| 2 |\\n\\n<!-- end -->", {"a": "| 1 |"})
    ['a']
    """
    _check(page, tables)
    found = {name: text for _, name, text, _ in _TABLE.findall(page)}
    return [name for name, text in found.items() if text != f"\n{tables[name]}\n\n"]


def _check(page: str, tables: Mapping[str, str]) -> None:
    names = [found[2] for found in _TABLE.finditer(page)]
    if len(_MARK.findall(page)) != 2 * len(names):
        raise ValueError("the page has a mark without its other one: <!-- table: NAME --> and "
                         "<!-- end --> go together")  # fmt: skip
    for name in [*names, *tables]:
        count = names.count(name)
        if name not in tables:
            raise ValueError(f"the page has a table {name!r}; known are: {', '.join(tables)}")
        if count != 1:
            raise ValueError(f"the page has the table {name!r} {count} times, and not once")
