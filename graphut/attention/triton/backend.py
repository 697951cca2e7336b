"""The backend "triton": attention by Triton kernels, imported when the first call is made."""

import warnings
from functools import cache

import torch

from graphut.attention.backend import AttentionCall, AttentionResult
from graphut.attention.torch_ops import TORCH

_failure: Exception | None = None  # of the first call whose kernels could not be launched


def attend_or_fall_back(call: AttentionCall) -> AttentionResult:
    """Compute attention by the Triton kernels, on a GPU or in Triton's interpreter.

    If they cannot be launched, warn once and use the backend "torch".
    """
    global _failure
    if missing := _import_error():
        raise ImportError(
            f"the backend 'triton' needs the package triton ({missing}): pip install triton, "
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
    try:
        return AttentionResult(attend(call))
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        _failure = error
    reason = " ".join(str(_failure).split())[-300:]
    warnings.warn(
        f"attention on a GPU does without Triton, slower: {type(_failure).__name__}: {reason}",
        RuntimeWarning,
        stacklevel=2,
    )
    return TORCH.attend(call)


def is_installed() -> bool:
    """Return whether Triton can be imported, and no kernel has failed."""
    return _failure is None and _import_error() is None


@cache
def _import_error() -> str | None:
    try:
        import triton  # noqa: F401
    except ImportError as error:
        return str(error)
    return None
