import subprocess
import sys

import torch

from graphut import _torch

CODE = """
import graphut, sys
graphut.__version__
assert "torch" not in sys.modules
from graphut.nn import HALTING_PRESETS, ACT
from graphut.topology import parse
assert parse("virtual:1|global:0").has_extra_nodes and ACT().spec() == "act"
assert "torch" not in sys.modules
parse("causal").mask(2)
assert "torch" in sys.modules
"""


def test_torch_is_imported_at_its_first_use() -> None:
    subprocess.run([sys.executable, "-c", CODE], check=True, timeout=120)
    assert _torch.torch.arange is torch.arange
