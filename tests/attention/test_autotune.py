from __future__ import annotations

import json
import platform
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from graphut import __version__
from graphut._files import write_json
from graphut.attention import BACKENDS, EdgeLayout, autotune, backends, edge_attention
from graphut.attention.autotune import cache_file, cpu_name, remember
from graphut.topology import Causal
from tests.topology.brute import Comb

KIND = "interval cpu float32 plain"


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache file of a process that has read nothing yet."""
    monkeypatch.setenv("GRAPHUT_CACHE", str(tmp_path / "cache"))
    forget(monkeypatch)
    return tmp_path / "cache" / "backends.json"


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autotune, "_choices", None)
    monkeypatch.setattr(autotune, "_refused", set())


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The backends that are called, by name."""
    taken: list[str] = []

    def spy(name: str) -> Any:
        real = BACKENDS[name]

        def backend(call: Any) -> Any:
            taken.append(name)
            return real.attend(call)

        return replace(real, attend=backend)

    for name in BACKENDS:
        monkeypatch.setitem(BACKENDS, name, spy(name))
    return taken


def call(layout: EdgeLayout | None = None, **options: Any) -> Tensor | tuple[Tensor, Tensor]:
    layout = Causal().layout([3]) if layout is None else layout
    x = torch.randn(layout.num_src, 2, 4)
    result: Tensor | tuple[Tensor, Tensor] = edge_attention(layout, x, x, x, **options)
    return result


def written(file: Path, **changes: Any) -> None:
    file.parent.mkdir(exist_ok=True)
    content = {"graphut": __version__, "machine": cpu_name(), "backends": {KIND: "dgl"}}
    write_json(file, content | changes)


def test_cache_file_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHUT_CACHE", "/a")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    monkeypatch.setenv("HOME", "/c")
    assert cache_file() == Path("/a/backends.json")
    monkeypatch.delenv("GRAPHUT_CACHE")
    assert cache_file() == Path("/b/graphut/backends.json")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_file() == Path("/c/.cache/graphut/backends.json")


def test_remember_is_followed_by_auto_and_read_once(
    file: Path, taken: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backends, "candidates", lambda call: ["torch", "dgl"])
    call()
    remember(KIND, "dgl")
    call()
    forget(monkeypatch)  # as another process
    remember("csr cpu float32 plain", "torch")
    forget(monkeypatch)
    call()
    written(file, backends={KIND: "torch"})
    call()
    call(Comb(2).layout([5]))
    call(backend="dense")
    assert taken == ["torch", "dgl", "dgl", "dgl", "torch", "dense"]


def test_measured_backend_is_for_its_kind_of_calls_alone(file: Path, taken: list[str]) -> None:
    written(file, backends={KIND: "oracle"})  # a name that would be refused
    for options in ({"edge_bias": torch.zeros(6)}, {"dropout": 0.5}, {"get_attention": True}):
        call(**options)
    call(Comb(2).layout([5]))
    assert len(taken) == 4


@pytest.mark.parametrize("name", ["abacus", "dense"])
def test_measured_backend_does_not_follow_one_that_cannot_do_the_call(
    name: str, file: Path, taken: list[str]
) -> None:
    written(file, backends={KIND: name})
    with pytest.warns(UserWarning, match=f"names the backend '{name}'") as warned:
        [call() for _ in "12"]
    assert len(warned) == 1 and name not in taken


def test_measured_backend_compiles(file: Path) -> None:
    written(file)
    compiled = torch.compile(
        lambda x: x + (autotune._lookup(KIND) == "dgl"), fullgraph=True, backend="eager"
    )
    assert compiled(torch.zeros(1)).item() == 1


@pytest.mark.parametrize(
    ("text", "processor", "expected"),
    [
        ("processor : 0\nmodel name\t: Abacus: 9\nmodel name\t: Abacus: 9\n", "x", "Abacus: 9"),
        ("Features : none\n", "ARM", "ARM"),
        (None, "ARM", "ARM"),
        (None, "", platform.machine()),
    ],
)
def test_cpu_name(
    text: str | None, processor: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(self: Path) -> str:
        if text is None:
            raise FileNotFoundError(self)
        return text

    monkeypatch.setattr(Path, "read_text", read)
    monkeypatch.setattr(platform, "processor", lambda: processor)
    assert cpu_name.__wrapped__() == expected


FILE = {"graphut": __version__, "machine": cpu_name(), "backends": {KIND: "dgl"}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (FILE | {"graphut": "0.0.1"}, "graphut '0.0.1'"),
        (FILE | {"machine": "abacus"}, "machine 'abacus'"),
        (FILE | {"backends": None}, "no table"),
        (FILE | {"backends": {KIND: 3}}, "no table"),
        ([], "no table"),
        (b"", "is ignored"),
        (b"{", "is ignored"),
        (b"\xff\xfe", "is ignored"),
    ],
    ids=str,
)
def test_measured_backend_ignores_a_foreign_or_damaged_file_with_one_warning(
    content: Any, message: str, file: Path, taken: list[str]
) -> None:
    file.parent.mkdir()
    file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.warns(UserWarning, match=message) as warned:
        [call() for _ in "12"]
    assert len(warned) == 1 and len(taken) == 2
    assert remember(KIND, "torch") == file  # without a warning
    assert json.loads(file.read_bytes())["backends"] == {KIND: "torch"}
