"""Detect tracing, inference mode and autocast, and run code outside of them."""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ParamSpec, TypeVar

import torch
from torch.compiler import is_compiling
from torch.utils._python_dispatch import _get_current_dispatch_mode

P = ParamSpec("P")
T = TypeVar("T")


def uncompiled(function: Callable[P, T]) -> Callable[P, T]:
    """Let a program of `torch.compile` call a function, with a graph break, but not trace it."""

    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> T:
        if is_compiling():
            return leave_program(function, *args, **options)
        return function(*args, **options)

    return call


def leave_program(function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Call a function outside of the program that `torch.compile` traces."""
    result: T = torch.compiler.disable(function)(*args, **options)
    return result


# As the decorator torch.compiler.disable does it, but that would import the compiler.
leave_program._torchdynamo_disable = True  # type: ignore[attr-defined]
leave_program._torchdynamo_disable_msg = "layers on graphs are not compiled"  # type: ignore[attr-defined]


def is_capturing() -> bool:
    """Return whether a CUDA graph is being captured."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


def is_intercepted() -> bool:
    """Return whether torch traces or intercepts operators, perhaps with tensors without values."""
    return is_compiling() or _get_current_dispatch_mode() is not None


def in_jit_trace() -> bool:
    """Return whether `torch.jit.trace` is active."""
    return torch._C._get_tracing_state() is not None


def outside_inference() -> AbstractContextManager[Any]:
    """Context manager that leaves inference mode, so that autograd can use the new tensors."""
    return torch.inference_mode(False) if torch.is_inference_mode_enabled() else nullcontext()


def outside_autocast(device: str) -> AbstractContextManager[Any]:
    """Return a context manager that disables autocast for a device type such as `"cuda"`."""
    # Entering torch.autocast takes longer than all checks of a call, so avoid it if possible.
    # The device "meta" has no autocast.
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        return torch.autocast(device, enabled=False)
    return nullcontext()


def cached_property(make: Callable[[Any], T]) -> functools.cached_property[T]:
    """Return `functools.cached_property(make)`, whose tensors serve in training too."""

    @functools.wraps(make)
    def outside(instance: Any) -> T:
        with outside_inference():
            return make(instance)

    return functools.cached_property(outside)
