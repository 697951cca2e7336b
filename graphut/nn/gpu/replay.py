"""Programs that are kept for later calls, and CUDA graphs of their launches."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from threading import RLock
from typing import Any

import torch
from torch import Tensor

from graphut.attention.layout import full_size
from graphut.attention.tracing import outside_autocast
from graphut.attention.triton.function import INTERPRETED
from graphut.nn.gpu.program import Program
from graphut.nn.gpu.settings import Settings, limit_mode, mode_for

# Of the programs that are kept while no call uses them.
MOST, MOST_BYTES = 64, 8 * 2**30
_lock, _capture_lock = RLock(), RLock()


class Replay:
    """A sequence of launches: from its second run on, a CUDA graph repeats it.

    The first run compiles the kernels. Where Triton interprets them, the launches are made one by
    one.
    """

    def __init__(self, launches: Sequence[Any], settings: Settings) -> None:
        self._launches, self._settings = launches, settings
        self.has_run = False
        self._replay: Callable[[], None] | None = None

    def run(self) -> None:
        """Make all launches."""
        as_graph = not INTERPRETED and mode_for(self._settings) == "graphs"
        if as_graph and self.has_run and self._replay is None:
            try:
                self._replay = capture(self._launch)
            except Exception as error:
                limit_mode(self._settings, "launches", error)
        (self._replay if as_graph and self._replay else self._launch)()
        self.has_run = True  # an interrupted run may not have compiled all kernels

    def _launch(self) -> None:
        for launch in self._launches:
            launch()


def capture(run: Callable[[], None]) -> Callable[[], None]:
    """Capture the launches of `run` on the current device; return a function that repeats them."""
    graph, current = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
    with _capture_lock:
        stream = _capture_stream(torch.cuda.current_device())
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                run()
            except BaseException:
                with suppress(RuntimeError):  # it says that the capture is invalid
                    graph.capture_end()
                raise
            graph.capture_end()
        current.wait_stream(stream)
    return graph.replay


@cache
def _capture_stream(device: int) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


class ProgramError(Exception):
    """A launch or its compilation failed; the cause says why."""


class Kept:
    """A program with the graphs of its launches, and what it can be used for."""

    def __init__(self, key: Hashable, program: Program) -> None:
        self.key, self.program = key, program
        kinds = program.forward, program.backward
        self.forward, self.backward = ([Replay(x, program.settings) for x in k] for k in kinds)


idle: list[Kept] = []  # programs that no call uses; the last are the latest


class Lease:
    """A program in the hands of one call, until it is given back.

    It is an idle program of an earlier call, if there is one for inputs of about these sizes.
    """

    def __init__(self, settings: Settings, inputs: Mapping[str, Tensor]) -> None:
        self._kept: Kept | None = None
        _release_when_out_of_memory()
        device, shapes = inputs["states"].device, full_shapes(inputs)
        kinds = tuple((name, shapes[name], x.dtype) for name, x in inputs.items())
        # Of another stream, the last call may still run.
        key = settings, kinds, device, torch.cuda.current_stream(device)

        def make() -> Kept:
            with torch.inference_mode(False):
                static = {name: x.new_empty(shapes[name]) for name, x in inputs.items()}
                return Kept(key, Program(settings, static))

        with _lock:
            found = next((each for each in reversed(idle) if each.key == key), None)
            if found is not None:
                idle.remove(found)
        if found is None:
            with suppress(torch.OutOfMemoryError):
                found = make()
        if found is None:  # the exception, which held what was allocated, is gone
            release()
            found = make()
        self._kept, self.program = found, found.program

    def run(self) -> None:
        """Make the launches of the forward pass, until no node is active.

        The first time all are made, and those of the backward pass follow, with zero gradients: if
        one of them fails, the general loop can still run.
        """
        kept = self._kept
        assert kept is not None
        self._make(self._until_halted(kept))
        if not (INTERPRETED or all(each.has_run for each in kept.forward + kept.backward)):
            self._make(kept.forward[self._made :] + kept.backward[::-1])

    def _until_halted(self, kept: Kept) -> Iterator[Replay]:
        for self._made, replay in enumerate(kept.forward, 1):
            yield replay
            if self._made < len(kept.forward) and not kept.program.is_active_after(self._made):
                break

    def run_backward(self) -> None:
        """Make the launches of the backward pass, for the steps of the forward pass."""
        assert self._kept is not None
        begin, chunks = self._kept.backward[-1], self._kept.backward[: self._made]
        self._make([begin, *reversed(chunks)])

    def _make(self, replays: Iterable[Replay]) -> None:
        """Make launches; if they fail or are interrupted, the program is not given back."""
        kept, self._kept = self._kept, None
        try:
            with outside_autocast("cuda"):  # it would change the dtypes of operations among them
                for each in replays:
                    each.run()
        except Exception as error:
            raise ProgramError(str(error)) from error
        self._kept = kept

    def give_back(self) -> None:
        """Keep the program for later calls."""
        kept, self._kept = self._kept, None
        if kept is None:
            return
        with _lock:
            idle.append(kept)
            while len(idle) > MOST or sum(x.program.nbytes for x in idle[:-1]) > MOST_BYTES:
                del idle[0]

    def __del__(self) -> None:
        self.give_back()

    def ticket(self) -> Tensor:
        """Return a tensor on the host whose storage keeps the lease.

        Autograd saves it instead of the lease, so that a program is free as soon as the graph is,
        and while a checkpoint has dropped the tensors that its steps saved.
        """
        ticket = torch.empty(0, device="cpu")
        ticket.untyped_storage().lease = self  # type: ignore[attr-defined]
        return ticket


def release() -> None:
    """Forget all programs that no call uses."""
    with _lock:
        idle.clear()


@cache
def _release_when_out_of_memory() -> None:
    observe = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
    if observe is not None:  # not in a build without CUDA
        observe(lambda *_: release())


def full_shapes(inputs: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a program's tensors, of which the inputs of a call fill a part."""
    return {
        name: (full_size(len(x)), *x.shape[1:]) if name in _BY_NODE else tuple(x.shape)
        for name, x in inputs.items()
    }


# Inputs with a row for each node; those for edges have the full size already.
_BY_NODE = {"states", "encodings", "schedule", "encoded"}
_BY_NODE |= {
    f"{prefix}{name}" for prefix in ("", "cross_") for name in ("in_lo", "in_hi", "in_row_starts")
}
