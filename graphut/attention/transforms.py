"""The transforms of torch.func, and forward-mode AD: whether one is at work, and how to leave it.

Inside of `grad`, `jvp` and `vmap` each new tensor belongs to the transform, and is void after it.
What is kept with a layout is made outside of them, and outside of `torch.inference_mode`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import (
    TransformType,
    get_interpreter_stack,
    get_unwrapped,
    is_batchedtensor,
    is_functorch_wrapped_tensor,
    peek_interpreter_stack,
)
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.autograd import forward_ad
from torch.compiler import is_compiling, is_dynamo_compiling
from torch.utils._python_dispatch import _get_current_dispatch_mode


def in_transform() -> bool:
    """Return whether derivatives may be taken that a backend's own gradient knows nothing of.

    Examples
    --------
    >>> import torch
    >>> torch.func.vmap(lambda x: x + in_transform())(torch.zeros(2)), in_transform()
    (tensor([1., 1.]), False)
    """
    return _in_torch_func() or forward_ad._current_level >= 0


def in_vmap() -> bool:
    """Return whether a tensor may have many values, which no check can look at."""
    return _in_torch_func() and any(
        layer.key() == TransformType.Vmap for layer in get_interpreter_stack() or ()
    )


def is_intercepted() -> bool:
    """Return whether torch records what is done, on tensors that may have no numbers.

    Examples
    --------
    >>> from torch._subclasses import FakeTensorMode
    >>> with FakeTensorMode():
    ...     is_intercepted()
    True
    """
    return is_compiling() or _get_current_dispatch_mode() is not None


def is_exporting() -> bool:
    """Return whether `torch.export` runs the code on tensors without numbers, not to be kept."""
    return is_compiling() and not is_dynamo_compiling()


def outside_transforms() -> AbstractContextManager[Any]:
    """Return a context outside of all transforms of torch.func, and of `torch.inference_mode`.

    A tensor that is made in it can be kept when the transform has ended, and a later backward pass
    may use it.
    """
    if is_compiling():
        return nullcontext()
    outside = ExitStack()
    if _in_torch_func():
        outside.enter_context(temporarily_clear_interpreter_stack())
    if torch.is_inference_mode_enabled():
        outside.enter_context(torch.inference_mode(False))
        outside.enter_context(torch.no_grad())
    return outside


def outside_autocast(device: str) -> AbstractContextManager[Any]:
    """Return a context in which torch takes the dtypes that are given, on a type of devices."""
    # Entering torch.autocast takes longer than all checks of a call, so it is avoided if possible.
    # The device "meta" has no autocast.
    if is_compiling() or (
        torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    ):
        return torch.autocast(device, enabled=False)
    return nullcontext()


def _in_torch_func() -> bool:
    # torch.compile, which takes an interpreter for an object, goes through transforms by itself.
    return not is_compiling() and peek_interpreter_stack() is not None


def unwrap_functorch(indices: Tensor) -> Tensor:
    """Return the tensor of indices that a transform has wrapped.

    Raises
    ------
    ValueError
        If it is another one for each example of `vmap`.
    """
    while not is_compiling() and is_functorch_wrapped_tensor(indices):
        if is_batchedtensor(indices):
            raise ValueError(
                "torch.func.vmap goes over graphs or frontiers, but all its examples must have the "
                "same: give it features alone, or batch the graphs with dgl.batch"
            )
        indices = get_unwrapped(indices)
    return indices
