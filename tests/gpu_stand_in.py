"""A stand-in for a GPU, on which launches and waits are counted.

Tensors that are moved to "cuda" or "cuda:1" report this device, and each operation on them is
counted: a launch for each, and a wait if the host needs a value from the
device. Results are correct: torch's kernels run on the CPU, and Triton's in its interpreter.

    with gpu_stand_in() as gpu:
        layer, feat = layer.to("cuda"), feat.to("cuda")
        layer(graph, feat)                      # creates what later calls share
        gpu.clear()
        out, _ = layer(graph, feat)
        assert len(gpu.launches) < 200          # a list of Event(name, line of graphut)
        assert gpu.waits == []
        assert gpu.copies == []                 # between host and device, in either direction
        numbers = gpu.host(out)                 # a tensor on the CPU; counts nothing

A copy into pinned memory, `non_blocking=True`, arrives when the event that is recorded after it
does. `arrives` returns at each `event.query()` whether it has arrived; by default it has.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

import graphut
from tests.attention.triton.interpreter import INTERPRET, skip_unless_kernels_run

META, CPU = torch.device("meta"), torch.device("cpu")
LIBRARY = str(Path(graphut.__file__).parent) + "/"

# Operations that only describe a tensor anew, beside those that torch knows as views.
NO_LAUNCH = {
    *("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"),
    *("_unsafe_view", "_reshape_alias", "lift_fresh", "detach", "alias", "set_"),
    *("squeeze_", "unsqueeze_", "transpose_", "t_"),
}
# Operations after which the host has to know a number, or the shape of the result.
WAITS = {
    *("_local_scalar_dense", "equal", "nonzero", "masked_select", "bincount"),
    *("_unique2", "unique_dim", "unique_consecutive"),
}
UNTIL_IT_ARRIVES = -77  # in pinned memory until its copy arrives


class Event(NamedTuple):
    """A launch, a wait or a copy that was counted."""

    name: str  # of the operation or the kernel
    line: str  # of graphut, "nn/loop.py:83", or "" where no line of graphut is at work: backward


class DeviceTensor(Tensor):
    """A tensor on the stand-in, with values on the CPU; torch's own code sees a meta tensor."""

    numbers: Tensor
    index: int  # of its device

    @staticmethod
    def __new__(cls, numbers: Tensor, index: int) -> DeviceTensor:
        made = Tensor._make_wrapper_subclass(
            cls,
            numbers.shape,
            strides=numbers.stride(),
            storage_offset=numbers.storage_offset(),
            dtype=numbers.dtype,
            device="meta",
        )
        made.numbers, made.index = numbers, index
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, *_: Any) -> Any:
        raise RuntimeError(f"{func} of a tensor on a stand-in for a GPU that has ended")

    device = property(lambda self: torch.device("cuda", self.index))
    is_cuda, is_cpu, is_meta = True, False, False

    def get_device(self) -> int:
        return self.index

    def __repr__(self, **_: Any) -> str:
        return f"DeviceTensor({self.numbers!r})"


class StandIn:
    """A record of launches, waits and copies."""

    def __init__(self, arrives: Callable[[], bool]) -> None:
        self.launches: list[Event] = []
        self.waits: list[Event] = []
        self.copies: list[Event] = []
        # Name, grid and numbers of each launch of Triton; shapes stand for tensors.
        self.calls: list[tuple[Any, ...]] = []
        self.is_capturing = False  # for a CUDA graph, which may neither wait nor copy
        self._arrives = arrives
        self._sent: list[tuple[Tensor, Tensor]] = []  # host and device, until an event is recorded
        self._pinned: dict[int, Tensor] = {}
        self.current = 0  # the index of the current device
        self._streams: dict[int, Stream] = {}

    def clear(self) -> None:
        """Clear all records."""
        for events in (self.launches, self.waits, self.copies, self.calls):
            events.clear()

    def host(self, tensor: Tensor) -> Tensor:
        """Return the values of a tensor on the CPU, without counting a copy."""
        return tensor.numbers if isinstance(tensor, DeviceTensor) else tensor

    # What torch.cuda is asked for.

    @contextmanager
    def on(self, index: int) -> Iterator[None]:
        """Make a device the current one."""
        before, self.current = self.current, index
        try:
            yield
        finally:
            self.current = before

    def stream(self, device: Any = None) -> Stream:
        """Return the stream of a device, by default of the current one."""
        index = getattr(torch.device(device or "cuda"), "index", None)
        index = self.current if index is None else index
        return self._streams.setdefault(index, Stream(self, index))

    def record_event(self) -> ArrivingEvent:
        """Return an event that arrives together with the copies started before it."""
        sent, self._sent = self._sent, []
        return ArrivingEvent(self, sent)

    def pin(self, tensor: Tensor) -> Tensor:
        """Mark a tensor as pinned memory, and return it."""
        self._pinned[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    def is_pinned(self, tensor: Tensor) -> bool:
        """Return whether a tensor is in pinned memory."""
        return tensor.untyped_storage().data_ptr() in self._pinned

    # Counters.

    def wait(self, name: str) -> None:
        """Count a wait."""
        self.waits.append(Event(name, _line()))

    def launch(self, name: str) -> None:
        """Count a launch of a kernel."""
        self.launches.append(Event(name, _line()))

    def send(self, host: Tensor, device: Tensor) -> None:
        """Start a copy from `device` to pinned memory, which arrives with the next event."""
        self._sent.append((host, device.clone()))
        host.fill_(UNTIL_IT_ARRIVES)


class Stream:
    """A stream of a device."""

    def __init__(self, gpu: StandIn, index: int) -> None:
        self.index, self.record_event = index, gpu.record_event


class ArrivingEvent:
    """A CUDA event, with the copies that were started before it."""

    def __init__(self, gpu: StandIn, sent: list[tuple[Tensor, Tensor]]) -> None:
        self._gpu = gpu
        self._sent = sent
        self._here = False

    def query(self) -> bool:
        """Return whether the copies before the event have arrived."""
        if not self._here and self._gpu._arrives():
            self._arrive()
        return self._here

    def synchronize(self) -> None:
        """Wait until the copies before the event have arrived."""
        if not self.query():
            self._gpu.wait("synchronize")
            self._arrive()

    def _arrive(self) -> None:
        self._here = True
        for host, device in self._sent:
            host.copy_(device)


class _Calls(TorchFunctionMode):
    """Replace the device "cuda" in calls by the meta device, which torch's code sees."""

    def __init__(self, gpu: StandIn) -> None:
        super().__init__()
        self._gpu = gpu

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in (torch.device, torch._C._nn._parse_to):  # which only name a device
            return func(*args, **(kwargs or {}))
        args, kwargs = args, dict(kwargs or {})
        named = [x for x in tree_flatten((args, kwargs))[0] if _is_device(x)]
        if named:
            index = torch.device(named[0]).index
            args, kwargs = tree_map(lambda x: META if _is_device(x) else x, (args, kwargs))
            with self._gpu.on(self._gpu.current if index is None else index):
                return self.__torch_function__(func, types, args, kwargs)
        if func is Tensor.cuda:
            return self.__torch_function__(Tensor.to, types, (args[0], "cuda"))
        if func is Tensor.is_pinned:
            return self._gpu.is_pinned(args[0])
        if func in (Tensor.tolist, Tensor.numpy) and isinstance(args[0], DeviceTensor):
            return func(args[0].to(CPU))
        if func is Tensor.pin_memory:
            return self._gpu.pin(args[0].clone())
        if func in (torch.tensor, torch.as_tensor) and kwargs.get("device") == META:
            return func(*args, **kwargs | {"device": CPU}).to(META)
        pinned = kwargs.pop("pin_memory", False)
        made = func(*args, **kwargs)
        return self._gpu.pin(made) if pinned else made


class _Operations(TorchDispatchMode):
    """Count the operations on tensors of the stand-in, and run them on the CPU."""

    def __init__(self, gpu: StandIn) -> None:
        super().__init__()
        self._gpu = gpu

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        flat, tree = tree_flatten((args, kwargs))
        there = [x for x in flat if isinstance(x, DeviceTensor)]
        devices = {x.type for x in flat if isinstance(x, torch.device)}
        if not there and "meta" not in devices:
            return func(*args, **kwargs)
        name = func.name().removeprefix("aten::").split(".")[0]
        here = [x for x in flat if isinstance(x, Tensor) and not isinstance(x, DeviceTensor)]
        own_args, own_kwargs = tree_unflatten([_on_host(x) for x in flat], tree)
        crosses = name in ("_to_copy", "copy_") and (bool(here) or "cpu" in devices)
        if crosses:
            if self._cross(name, args, kwargs):
                return args[0]
        else:
            assert not any(x.dim() for x in here), f"{func} mixes tensors of host and device"
            self._count(func, name, flat)
        found = func(*own_args, **own_kwargs)
        if name == "_to_copy" and "cpu" in devices:
            return found
        known = {id(_on_host(x)): x for x in there + here}
        indices = {x.index for x in there if x.dim() or len(there) == 1}
        moved = "meta" in devices or not indices
        assert moved or len(indices) == 1, f"{func} mixes devices"
        index = self._gpu.current if moved else indices.pop()
        return tree_map(lambda x: _on_device(x, known, index), found)

    def _cross(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Count a copy between host and device; return whether it arrives later."""
        target, source = (None, args[0]) if name == "_to_copy" else args[:2]
        non_blocking = kwargs.get("non_blocking", len(args) > 2 and args[2])
        is_sent = isinstance(source, DeviceTensor)
        host = target if is_sent else source
        self._gpu.copies.append(Event(name, _line()))
        if host is None or not (non_blocking and self._gpu.is_pinned(host)):
            self._gpu.wait(name)
            return False
        if is_sent:
            self._gpu.send(host, source.numbers)
        return is_sent

    def _count(self, func: Any, name: str, flat: list[Any]) -> None:
        if func.is_view or name in NO_LAUNCH:
            return
        by_mask = name in ("index", "index_put", "index_put_") and any(
            isinstance(x, Tensor) and x.dtype == torch.bool for x in flat[1:]
        )
        of_unknown_size = name == "repeat_interleave" and not isinstance(flat[-1], int)
        if name in WAITS or by_mask or of_unknown_size:
            self._gpu.wait(name)
        if name != "_local_scalar_dense":
            self._gpu.launch(name)


def _is_device(x: Any) -> bool:
    """Return whether `x` names a device of the stand-in."""
    return isinstance(x, torch.device | str) and str(x).partition(":")[0] == "cuda"


def _on_host(x: Any) -> Any:
    if isinstance(x, torch.device):
        return CPU
    return x.numbers if isinstance(x, DeviceTensor) else x


def _on_device(x: Any, known: dict[int, Tensor], index: int) -> Any:
    if not isinstance(x, Tensor):
        return x
    return known[id(x)] if id(x) in known else DeviceTensor(x, index)


def _line() -> str:
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.startswith(LIBRARY):
            return f"{frame.f_code.co_filename.removeprefix(LIBRARY)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


@contextmanager
def gpu_stand_in(*, arrives: Callable[[], bool] = lambda: True) -> Iterator[StandIn]:
    """Replace "cuda" by a stand-in for a GPU; yield its record of launches, waits and copies."""
    gpu = StandIn(arrives)
    run_backward = torch.autograd._engine_run_backward  # type: ignore[attr-defined]

    def backward(*args: Any, **kwargs: Any) -> Any:
        with _Calls(gpu):  # torch.autograd leaves the mode that it was called in
            return run_backward(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch, _Calls(gpu), _Operations(gpu):
        patch.setattr(torch.autograd, "_engine_run_backward", backward)
        patch.setattr(torch.cuda, "device_of", lambda x: gpu.on(max(0, x.get_device())))
        patch.setattr(torch.cuda, "current_device", lambda: gpu.current)
        patch.setattr(torch.cuda, "is_initialized", lambda: True)
        patch.setattr(torch.cuda, "is_current_stream_capturing", lambda: gpu.is_capturing)
        patch.setattr(torch.cuda, "current_stream", gpu.stream)
        if INTERPRET:
            skip_unless_kernels_run()
            _launch_kernels(gpu, patch)
        yield gpu


def _launch_kernels(gpu: StandIn, patch: pytest.MonkeyPatch) -> None:
    """Count launches of Triton kernels, and run them in the interpreter on CPU tensors."""
    from triton.runtime.interpreter import InterpretedFunction

    interpret = InterpretedFunction.__getitem__

    def run(self: Any, grid: Any, *args: Any, **kwargs: Any) -> None:
        gpu.launch(self.__name__)
        flat, _ = tree_flatten((args, kwargs))
        tensors = [x for x in flat if isinstance(x, Tensor)]
        places = {getattr(x, "index", None) for x in tensors}
        assert places == {gpu.current}, f"{self.__name__} on {gpu.current} with tensors on {places}"
        args, kwargs = tree_map(_on_host, (args, kwargs))
        shown = (x.shape if isinstance(x, Tensor) else x for x in flat)
        gpu.calls.append((self.__name__, grid, *shown))
        interpret(self, grid)(*args, **kwargs)

    patch.setattr(
        InterpretedFunction, "__getitem__", lambda self, grid: functools.partial(run, self, grid)
    )
