"""Detect transforms of torch.func, tracing and autocast, and run code outside of them.

Inside of `grad`, `jvp` and `vmap`, new tensors belong to the transform, and are invalid after it.
Therefore tensors that a layout stores are created outside of the transforms, and outside of
`torch.inference_mode`.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import TYPE_CHECKING, Any

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
    """Return whether a transform of torch.func or forward-mode AD is active."""
    return _in_torch_func() or forward_ad._current_level >= 0


def in_vmap() -> bool:
    """Return whether `vmap` is active, so that a check cannot read the values of a tensor."""
    return _in_torch_func() and any(
        layer.key() == TransformType.Vmap for layer in get_interpreter_stack() or ()
    )


def is_tracing() -> bool:
    """Return whether tensor values cannot be read: in tracing, `vmap` or CUDA graph capture."""
    return is_compiling() or in_vmap() or is_capturing()


def is_capturing() -> bool:
    """Return whether a CUDA graph is being captured."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


def is_intercepted() -> bool:
    """Return whether torch traces or intercepts operators, perhaps with tensors without values."""
    return is_compiling() or _get_current_dispatch_mode() is not None


def in_jit_trace() -> bool:
    """Return whether `torch.jit.trace` is active."""
    return torch._C._get_tracing_state() is not None


def is_exporting() -> bool:
    """Return whether `torch.export` is tracing; tensors made meanwhile must not be stored."""
    return is_compiling() and not is_dynamo_compiling()


def outside_transforms() -> AbstractContextManager[Any]:
    """Context manager that leaves torch.func and inference mode, so that new tensors stay valid."""
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
    """Return a context manager that disables autocast for a device type such as `"cuda"`."""
    # Entering torch.autocast takes longer than all checks of a call, so avoid it if possible.
    # The device "meta" has no autocast.
    if is_compiling() or (
        torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    ):
        return torch.autocast(device, enabled=False)
    return nullcontext()


def _in_torch_func() -> bool:
    # torch.compile traces transforms itself, and cannot trace `peek_interpreter_stack`.
    return not is_compiling() and peek_interpreter_stack() is not None


def unwrap_functorch(indices: Tensor) -> Tensor:
    """Return indices without wrappers of torch.func; refuse indices that `vmap` maps over."""
    while not is_compiling() and is_functorch_wrapped_tensor(indices):
        if is_batchedtensor(indices):
            raise ValueError(
                "torch.func.vmap maps over graphs or frontiers, but they must be the same for all "
                "examples: map over features only, or batch the graphs with dgl.batch"
            )
        indices = get_unwrapped(indices)
    return indices


if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class cached_property:  # noqa: N801
        """`functools.cached_property` without a lock; the value is made outside of torch.func."""

        def __init__(self, make: Callable[[Any], Any]) -> None:
            self.make = make
            self.__doc__ = make.__doc__

        def __get__(self, instance: Any, owner: type) -> Any:
            if instance is None:
                return self
            with outside_transforms():
                value = self.make(instance)
            if not is_exporting():
                object.__setattr__(instance, self.make.__name__, value)  # frozen dataclasses too
            return value
