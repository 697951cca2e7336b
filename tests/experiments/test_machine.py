from __future__ import annotations

import platform
from pathlib import Path

import pytest

from graphut.attention.autotune import cpu_name


@pytest.mark.parametrize(
    ("text", "processor", "expected"),
    [
        ("processor : 0\nmodel name\t: Abacus: 9\nmodel name\t: Abacus: 9\n", "x", "Abacus: 9"),
        ("Features : none\n", "ARM", "ARM"),
        (None, "ARM", "ARM"),
        (None, "", platform.machine()),
    ],
)
def test_the_name(
    text: str | None, processor: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(self: Path) -> str:
        if text is None:
            raise FileNotFoundError(self)
        return text

    monkeypatch.setattr(Path, "read_text", read)
    monkeypatch.setattr(platform, "processor", lambda: processor)
    assert cpu_name.__wrapped__() == expected
