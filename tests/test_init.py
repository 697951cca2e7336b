from __future__ import annotations

import subprocess
import sys

import pytest

import graphut


@pytest.mark.parametrize("name", graphut.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(graphut, name) is not None


def test_importing_graphut_brings_a_dgl_that_works() -> None:
    """Whoever imports graphut first can import dgl after it, on any torch."""
    code = "import graphut, sys; assert 'dgl' in sys.modules; import dgl; dgl.graph(([0], [1]))"
    subprocess.run([sys.executable, "-c", code], check=True)
