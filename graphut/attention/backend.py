"""A backend as one record: how it attends, and what it can do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from graphut.attention.call import AttentionCall
from graphut.attention.transforms import in_transform


class AttentionResult(NamedTuple):
    """The output of a call and, where the backend has them, the weights of the call's edges."""

    out: Tensor  # (A, H, Dv)
    weights: Tensor | None = None  # (e, H), in the order of `AttentionCall.edges`


class InPlaceKernels(NamedTuple):
    """Attention over keys and values that are written in place, for `KeyValueMemory`."""

    # A call without bias -> output, and two numbers of each row and head, of which `backward` makes
    # the weights again; autograd does not see it.
    forward: Callable[[AttentionCall], tuple[Tensor, Tensor]]
    # (call, gradient of the output, what `forward` gave, gradients of keys and of values to add to)
    # -> gradient of the query.
    backward: Callable[[AttentionCall, Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
    # Keys and values -> zeros that `backward` can add to.
    zero_gradients: Callable[[Tensor], Tensor]
    # (sums, keys and values) -> the sums in the shape and dtype of the keys and values.
    trim_gradients: Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False, kw_only=True)
class Backend:
    """One way to compute attention; all take every layout, bias, scale and dropout."""

    name: str  #: the name by which users choose it
    attend: Callable[[AttentionCall], AttentionResult]
    devices: tuple[str, ...] | None = None  #: types of devices that it runs on; None for all
    checks_device: bool = False  #: True if `attend` raises on a device that it cannot use
    dtypes: tuple[torch.dtype, ...] | None = None  #: dtypes of features that it takes; None for any
    returns_weights: bool = True  #: if not, calls that need attention weights go to "torch"
    traceable: bool = True  #: True if `torch.compile` can trace it
    transformable: bool = False  #: True if torch.func and forward-mode derivatives work
    #: Says if the packages or files that it needs are there; called last, and may warn.
    is_installed: Callable[[], bool] = lambda: True
    #: From a call to the place in the order in which "auto" takes the backends that can do it,
    #: lowest first; without one a backend is taken by name alone.
    auto_rank: Callable[[AttentionCall], int] | None = None
    in_place: InPlaceKernels | None = None  #: kernels for keys written in place
    #: Attention of a call whose frontier may end in ids past the last destination: how many, only
    #: the device knows. The output of their rows is zero.
    attend_counted: Callable[[AttentionCall], Tensor] | None = None

    def can_do(self, call: AttentionCall) -> bool:
        """Return whether the backend can do a call."""
        return (
            (self.devices is None or call.query.device.type in self.devices)
            and (self.dtypes is None or call.query.dtype in self.dtypes)
            and (self.returns_weights or not call.need_weights)
            and (self.traceable or not torch.compiler.is_compiling())
            and (self.transformable or not in_transform())
            and self.is_installed()
        )

    def check(self, query: Tensor) -> None:
        """Raise if the backend does not support the dtype or device, or the present transform."""
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
