"""The compiled kernels under the compilers' sanitizers; slow, so only with `pytest -m full`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from graphut.attention.native import ops

SOURCES = Path(ops.__file__).parent
TESTS = Path(__file__).parent
FLAGS = {
    "AVX512": ["-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mfma"],
    "AVX2": ["-mavx2", "-mfma"],
}

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ here"),
]


def compiler(*options: str) -> list[str]:
    wide = FLAGS.get(torch.backends.cpu.get_cpu_capability(), [])
    return ["g++", "-std=c++17", "-g", "-O2", "-fno-omit-frame-pointer", *wide, *options]


def run(command: list[str], **environment: str) -> str:
    result = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environment}
    )
    said = result.stdout + result.stderr
    assert result.returncode == 0, said[-4000:]
    return said


def test_addresses_and_undefined_behaviour(tmp_path: Path) -> None:
    """All tests of the kernels, against a build that stops at the first fault."""
    build = tmp_path / "kernels.so"
    checks = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    source = str(SOURCES / "kernels.cpp")
    run(compiler("-fopenmp", "-fPIC", "-shared", *checks, source, "-o", str(build)))
    runtime = run(["g++", "-print-file-name=libasan.so"]).strip()
    files = [str(TESTS / "test_attention.py"), str(TESTS.parent / "test_key_value_memory.py")]
    said = run(
        [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", *files],
        GRAPHUT_NATIVE=str(build),
        LD_PRELOAD=runtime,
        ASAN_OPTIONS="detect_leaks=0",  # Python keeps what it has until it ends
    )
    assert "passed" in said


def test_threads_do_not_race(tmp_path: Path) -> None:
    """A small program on four threads, which wait with what the sanitizer understands."""
    program = tmp_path / "threads"
    options = ["-fopenmp", "-fsanitize=thread", f"-I{SOURCES}"]
    run(compiler(*options, str(TESTS / "threads.cpp"), "-o", str(program)))
    assert "done" in run([str(program)])
