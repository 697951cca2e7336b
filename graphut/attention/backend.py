"""Backends: implementations of attention, each with the calls that it supports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from graphut.attention.call import AttentionCall
from graphut.attention.transforms import in_transform


class AttentionResult(NamedTuple):
    """The output of an attention call and, if the backend returns them, the attention weights."""

    out: Tensor  # (A, H, Dv)
    weights: Tensor | None = None  # (e, H), in the order of `AttentionCall.edges`


@dataclass(frozen=True, eq=False, kw_only=True)
class Backend:
    """One implementation of attention: its name, its function, and the calls that it supports."""

    name: str  #: the value of the argument `backend` that selects it
    attend: Callable[[AttentionCall], AttentionResult]
    devices: tuple[str, ...] | None = None  #: supported types of devices; None for all
    checks_device: bool = False  #: True if `attend` raises on a device that it cannot use
    dtypes: tuple[torch.dtype, ...] | None = None  #: supported dtypes of features; None for all
    returns_weights: bool = True  #: if False, calls that need attention weights use "torch"
    traceable: bool = True  #: True if `torch.compile` can trace it
    transformable: bool = False  #: True if it supports torch.func and forward-mode derivatives
    #: Return whether the required packages and files exist. Called last, because it may warn.
    is_installed: Callable[[], bool] = lambda: True
    #: Return the priority of the backend for a call with `backend="auto"`; the lowest number wins.
    #: None excludes the backend from "auto".
    auto_rank: Callable[[AttentionCall], int] | None = None
    #: Compute attention if the frontier ends in ids past the last destination, and only the device
    #: knows how many. The output of these rows is zero.
    attend_counted: Callable[[AttentionCall], Tensor] | None = None

    def can_do(self, call: AttentionCall) -> bool:
        """Return whether the backend supports a call and an active torch.compile or torch.func."""
        return (
            (self.devices is None or call.query.device.type in self.devices)
            and (self.dtypes is None or call.query.dtype in self.dtypes)
            and (self.returns_weights or not call.need_weights)
            and (self.traceable or not torch.compiler.is_compiling())
            and (self.transformable or not in_transform())
            and self.is_installed()
        )

    def check(self, query: Tensor) -> None:
        """Raise unless the backend supports the query's dtype, device, and torch.func if active."""
        if in_transform() and not self.transformable:
            raise RuntimeError(
                f"the backend {self.name!r} has no forward-mode derivatives and does not run "
                "inside of torch.func's grad, jvp or vmap: use backend='torch' or backend='dense'"
            )
        dtype, device = query.dtype, query.device.type
        if self.devices is not None and device not in self.devices and not self.checks_device:
            raise ValueError(
                f"the backend {self.name!r} runs on {' and '.join(self.devices)}, but the features "
                f"are on {query.device}: move them, or use backend='auto'"
            )
        if self.dtypes is not None and dtype not in self.dtypes:
            *most, last = (str(known).removeprefix("torch.") for known in self.dtypes)
            raise TypeError(
                f"the backend {self.name!r} takes {', '.join(most)} and {last}, got {dtype}: "
                "convert the features, or use backend='torch'"
            )
