"""Programs that are kept for later calls, and CUDA graphs of their launches."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from graphut.attention.tracing import is_capturing
from graphut.attention.triton.function import INTERPRETED
from graphut.attention.triton.inputs import Launch
from graphut.nn.gpu.program import Program
from graphut.nn.gpu.settings import Settings

# Of the programs that are kept while no call uses them.
MOST, MOST_BYTES = 8, 8 * 2**30


class Replay:
    """A sequence of launches: from its second run on, a CUDA graph repeats it.

    The first run compiles the kernels. Where Triton interprets them, and while a graph of the
    caller is captured, the launches are made one by one.
    """

    def __init__(self, launches: Sequence[Launch]) -> None:
        self._launches = launches
        self._has_run = False
        self._replay: Callable[[], None] | None = None

    def run(self) -> None:
        """Make all launches."""
        if self._has_run and not (self._replay or INTERPRETED or is_capturing()):
            self._replay = capture(self._launch)
        self._has_run = True
        (self._replay or self._launch)()

    def _launch(self) -> None:
        for launch in self._launches:
            launch.run()


def capture(run: Callable[[], None]) -> Callable[[], None]:
    """Capture the launches of `run` in a CUDA graph, and return a function that repeats them."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        run()
    return graph.replay


# Programs that no call uses, with their keys; the last are the latest.
idle: list[tuple[Hashable, Program, Replay, Replay]] = []


class Lease:
    """A program in the hands of one call, until its backward pass can not come any more.

    It is an idle program of an earlier call, if there is one for inputs of about these sizes.
    """

    def __init__(
        self, kind: type[Program], settings: Settings, inputs: Mapping[str, Tensor], layouts: Any
    ) -> None:
        like = inputs["states"]
        shapes = {
            name: (full_size(len(x)), *x.shape[1:]) if name in _BY_NODE else x.shape
            for name, x in inputs.items()
        }
        kinds = tuple((name, shapes[name], x.dtype) for name, x in inputs.items())
        # Of another stream, the last call may still run.
        key = settings, kinds, layouts, like.device, torch.cuda.current_stream(like.device)
        kept = next((each for each in reversed(idle) if each[0] == key), None)
        if kept is not None:
            idle.remove(kept)
        else:

            def make() -> Program:
                with torch.inference_mode(False):
                    static = {name: x.new_empty(shapes[name]) for name, x in inputs.items()}
                    return kind(settings, static, layouts)

            try:
                program = make()
            except torch.cuda.OutOfMemoryError:
                idle.clear()
                program = make()
            kept = key, program, Replay(program.forward), Replay(program.backward)
        self._kept = kept
        _, self.program, self.forward, self.backward = kept

    def __del__(self) -> None:
        """Keep the program for later calls."""
        if hasattr(self, "_kept"):
            idle.append(self._kept)
            while len(idle) > MOST or (len(idle) > 1 and _nbytes() > MOST_BYTES):
                del idle[0]


def _nbytes() -> int:
    return sum(program.nbytes for _, program, *_ in idle)


_BY_NODE = {"states", "encodings", "schedule", "encoded"}
_BY_NODE |= {f"{prefix}{name}" for prefix in ("", "cross_") for name in ("lo", "hi", "row_starts")}


def full_size(number: int) -> int:
    """Round a number up, by at most an eighth and 15, to one of few sizes.

    Examples
    --------
    >>> [full_size(number) for number in (1, 16, 100, 130, 2240)]
    [16, 16, 112, 144, 2304]
    """
    unit = max(16, 1 << max(0, number.bit_length() - 4))
    return -(-number // unit) * unit
