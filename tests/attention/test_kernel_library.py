import _ctypes
import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest
import torch

from graphut.attention import edge_attention, kernel_library
from graphut.attention.backend import AttentionCall
from graphut.attention.kernel_library import (
    LIBRARY,
    Call,
    Library,
    find_library,
)
from graphut.attention.native import ops
from graphut.attention.registry import choose
from graphut.topology import Causal
from tests.attention.naive import inputs
from tests.helpers import assert_same, refuses

BUILDS = {"AVX512": ["avx512", "avx2", "base"], "AVX2": ["avx2", "base"], "DEFAULT": ["base"]}


def build(name: str) -> Path | None:
    folder = Path(ops.__file__).parent
    return min(folder.glob(f"_{name}.*.so"), default=None)  # .abi3.so, if it is there


def fail(path: Path) -> None:
    raise OSError(f"{path}: cannot open shared object file")


@pytest.mark.parametrize("capability", BUILDS)
def test_find_library_takes_the_widest_instructions(
    capability: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(kernel_library, "Library", opened.append)
    monkeypatch.setattr(Path, "exists", lambda path: f"_{BUILDS[capability][-1]}." in path.name)
    find_library()
    monkeypatch.setattr(Path, "exists", lambda path: True)
    find_library()
    monkeypatch.setattr(kernel_library, "Library", fail)
    with pytest.warns(RuntimeWarning, match=r"kernels _\w+\..* slower: .* cannot open shared"):
        assert find_library() is None
    monkeypatch.setattr(Path, "exists", lambda path: False)
    assert find_library() is None
    names = [path.name.split(".")[0] for path in opened]
    assert names == [f"_{BUILDS[capability][-1]}", f"_{BUILDS[capability][0]}"]


@pytest.mark.skipif(LIBRARY is None, reason="the compiled kernels are not built")
@pytest.mark.parametrize(("name", "lanes"), [("base", 4), ("avx2", 8), ("avx512", 16)])
def test_each_build_is_of_its_own_instructions(name: str, lanes: int) -> None:
    # The builds are of the same sources: they must not take each other's object files.
    path = build(name)
    if path is None:
        pytest.skip(f"there is no build for {name}")
    assert Library(path).lanes(torch.float32) == lanes


def test_library_refuses_a_build_of_other_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    path = next(filter(None, map(build, BUILDS["AVX512"])), None)
    if path is None:
        pytest.skip("the compiled kernels are not built")

    class Longer(Call):
        _fields_: ClassVar = [("more", ctypes.c_int64)]

    monkeypatch.setattr("graphut.attention.kernel_library.Call", Longer)
    with pytest.raises(ImportError, match="built from other sources"):
        Library(path)
    with pytest.raises(ImportError, match="built from other sources"):
        Library(Path(_ctypes.__file__))


def test_is_built_warns_once_and_auto_takes_another_backend(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernel_library, "LIBRARY", None)
    kernel_library._warn_that_none_is_built.cache_clear()
    layout = Causal().layout([4])
    query, key, value = inputs(layout)
    call = AttentionCall(layout=layout, query=query, key=key, value=value)
    with pytest.warns(RuntimeWarning, match=r"C\+\+ compiler"):
        assert choose("auto", call).name == "torch"
    assert choose("auto", call).name == "torch"  # said once
    refuses("compiler", edge_attention, layout, query, key, value, backend="native")


@pytest.mark.parametrize("name", BUILDS["AVX512"])
def test_library_builds_agree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = build(name)
    if path is None or name not in BUILDS.get(torch.backends.cpu.get_cpu_capability(), ["base"]):
        pytest.skip(f"the build for {name} is not here, or this processor cannot run it")
    this = Library(path)
    monkeypatch.setattr(kernel_library, "LIBRARY", this)
    layout = Causal().layout([40, 3])
    tables = inputs(layout)
    for dropout in (0.0, 0.5):
        out, expected = (
            edge_attention(layout, *tables, dropout=dropout, seed=5, backend=backend)
            for backend in ("native", "dense")
        )
        upstream = torch.ones_like(out)
        found = torch.autograd.grad(out, tables, upstream)
        assert_same([out, *found], [expected, *torch.autograd.grad(expected, tables, upstream)])


FLAGS = {
    "AVX512": ["-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mfma", "-mavx512bf16"],
    "AVX2": ["-mavx2", "-mfma"],
}
KERNEL_TESTS = [
    str(Path(__file__).parent / name)
    for name in ("native/test_attention.py", "native/test_interval_parts.py")
]
NEEDS_COMPILER = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ here")


def compiler(*options: str) -> list[str]:
    wide = FLAGS.get(torch.backends.cpu.get_cpu_capability(), [])
    return ["g++", "-std=c++17", "-g", "-O2", "-fno-omit-frame-pointer", *wide, *options]


def run(command: list[str], cwd: Path | None = None, **environment: str) -> str:
    result = subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, env={**os.environ, **environment}
    )
    said = result.stdout + result.stderr
    assert result.returncode == 0, said[-4000:]
    return said


@pytest.mark.full
@NEEDS_COMPILER
def test_library_has_no_fault_under_address_sanitizer(tmp_path: Path) -> None:
    """Run all tests of the kernels, and the long one, on a build that stops at the first fault."""
    build = tmp_path / "kernels.so"
    checks = ["-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all"]
    sources = [str(path) for path in Path(ops.__file__).parent.glob("*.cpp")]
    run(compiler("-fopenmp", "-fPIC", "-shared", *checks, *sources, "-o", str(build)))
    # The sanitizer stops at an exception of C++ if it does not find what throws when it starts.
    names = ("libasan.so", "libstdc++.so")
    runtime = " ".join(run(["g++", f"-print-file-name={name}"]).strip() for name in names)
    files = (*KERNEL_TESTS, str(Path(__file__).parent / "test_key_value_memory.py"))
    said = run(
        [sys.executable, "-m", "pytest", "-q", "-s", "-m", "full or not full", *files],
        GRAPHUT_NATIVE=str(build),
        LD_PRELOAD=runtime,
        ASAN_OPTIONS="detect_leaks=0",  # Python never frees some memory
    )
    assert "passed" in said


@pytest.mark.full
@NEEDS_COMPILER
def test_library_threads_do_not_race(tmp_path: Path) -> None:
    """Run a small program on four threads, with barriers that the sanitizer understands."""
    program = tmp_path / "threads"
    options = ["-fopenmp", "-fsanitize=thread", f"-I{Path(ops.__file__).parent}"]
    source = str(Path(__file__).parent / "native" / "threads.cpp")
    run(compiler(*options, source, "-o", str(program)))
    assert "done" in run([str(program)])
