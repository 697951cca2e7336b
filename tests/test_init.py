from __future__ import annotations

import subprocess
import sys

import pytest

import graphut


@pytest.mark.parametrize("name", graphut.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(graphut, name) is not None


def test_importing_a_layer_brings_a_dgl_that_works() -> None:
    """Code that imports graphut's layers first can import dgl after them, on any torch."""
    code = "import graphut.nn, sys; assert 'dgl' in sys.modules; import dgl; dgl.graph(([0], [1]))"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("module", ["graphut", "graphut.nn", "graphut.models", "graphut.plotting"])
def test_the_library_loads_no_experiments(module: str) -> None:
    code = f"""
import {module}, sys
assert not [name for name in sys.modules if name.startswith("graphut.experiments")]
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_graphut_loads_no_torch() -> None:
    code = "import graphut, sys; graphut.__version__; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
