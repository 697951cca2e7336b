import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="needs triton")


@pytest.mark.full
@pytest.mark.parametrize("architecture", ["sm_80", "sm_89", "sm_90", "sm_100"])
def test_kernels_compile_within_limits(architecture: str, tmp_path: Path) -> None:
    """All forms of all kernels compile, in a process in which Triton is not its interpreter."""
    root = Path(__file__).parents[1]
    environment = os.environ | {"TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(root)}
    command = [sys.executable, "-m", "tests.compile_kernels", "--full", architecture]
    done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
