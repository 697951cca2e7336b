"""Imports the kernels to be interpreted where there is no GPU; whoever comes first decides.

With `TRITON_INTERPRET=0` in the environment, they are imported to be compiled.
"""

import os
from importlib.util import find_spec

import pytest
import torch

INTERPRET = (
    find_spec("triton") is not None
    and not torch.cuda.is_available()
    and os.environ.get("TRITON_INTERPRET") != "0"
)

if INTERPRET:
    import triton.language  # noqa: F401  (as it is, since torch may have imported it before)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")  # counts when kernels are imported, which is now
        import graphut.attention.triton.function
        import graphut.nn.gpu.device_loop


def skip_unless_kernels_run() -> None:
    """Skip a test whose kernels can not run here."""
    if INTERPRET and not graphut.attention.triton.function.INTERPRETED:
        pytest.skip("the kernels were imported to be compiled: run these tests before doctests")
