"""Choose between CUDA graphs, single launches and the general loop for recurrences on a GPU."""

import os
import warnings
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

MODES = ("off", "launches", "graphs")
_mode: ContextVar[str | None] = ContextVar("graphut_gpu", default=None)
# For settings of a program whose kernels or CUDA graph failed: the mode that remains.
_limits: dict[Hashable, str] = {}


class ProgramError(Exception):
    """A program could not be made, compiled or launched; its cause says why."""


@contextmanager
def mode(name: str) -> Iterator[None]:
    """Choose how recurrences run on a GPU, inside a `with` statement.

    The environment variable `GRAPHUT_GPU` chooses it for a whole process. The results are the same
    except for rounding.

    Parameters
    ----------
    name
        `"graphs"`, the default: the kernels of all steps are launched as one CUDA graph.
        `"launches"`: the same kernels, launched one by one. `"off"`: the general loop, in which the
        host waits in each step.

    Raises
    ------
    ValueError
        If `name` is none of these.

    Examples
    --------
    >>> from graphut.nn import gpu
    >>> with gpu.mode("launches"):
    ...     pass  # calls of recurrences
    """
    token = _mode.set(_check(name, "name"))
    try:
        yield
    finally:
        _mode.reset(token)


def mode_for(settings: Hashable) -> str:
    """Return the mode of a call whose program has these settings."""
    chosen = _mode.get() or _check(os.environ.get("GRAPHUT_GPU", "graphs"), "GRAPHUT_GPU")
    return min(chosen, _limits.get(settings, "graphs"), key=MODES.index)


def limit_mode(settings: Hashable, name: str, error: BaseException | None) -> None:
    """Use at most the mode `name` for these settings from now on, and say why."""
    _limits[settings] = name
    does = "makes its launches one by one" if name == "launches" else "runs in the general loop"
    reason = " ".join(str(error).split())[-300:]
    warnings.warn(
        f"a recurrence on a GPU {does}, which is slower: {type(error).__name__}: {reason}. "
        f"GRAPHUT_GPU={name} avoids this warning.",
        RuntimeWarning,
        stacklevel=2,
    )


def _check(name: str, what: str) -> str:
    if name not in MODES:
        raise ValueError(f"{what} must be one of {', '.join(MODES)}, got {name!r}")
    return name
