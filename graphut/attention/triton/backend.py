"""The backend "triton": attention by Triton kernels, imported when the first call is made."""

from functools import cache

import torch
from torch import Tensor

from graphut.attention.backend import AttentionCall, AttentionResult, Backend


def triton_attention(call: AttentionCall) -> Tensor:
    """Compute attention by the Triton kernels, on a GPU or in Triton's interpreter.

    Raise `ImportError` if Triton is not installed, and `ValueError` if the tensors are on the CPU,
    unless Triton interprets its kernels there.
    """
    if error := _import_error():
        raise ImportError(
            f"the backend 'triton' needs the package triton ({error}): pip install triton, "
            "or use backend='torch'"
        )
    # Triton decides when kernels are imported whether they are compiled or interpreted.
    from graphut.attention.triton.function import INTERPRETED, attend

    if not call.query.is_cuda and not INTERPRETED:
        raise ValueError(
            f"the backend 'triton' needs tensors on a CUDA device, got {call.query.device}: move "
            "them, use another backend, or set TRITON_INTERPRET=1 before the first call to "
            "interpret the kernels, slowly"
        )
    return attend(call)


@cache
def _import_error() -> str | None:
    try:
        import triton  # noqa: F401
    except ImportError as error:
        return str(error)
    return None


TRITON = Backend(
    name="triton",
    attend=lambda call: AttentionResult(triton_attention(call)),
    devices=("cuda",),
    checks_device=True,
    dtypes=(torch.float32, torch.bfloat16, torch.float16),
    returns_weights=False,
    is_installed=lambda: _import_error() is None,
    auto_rank=lambda call: 0,
)
