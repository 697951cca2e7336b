"""The fastest backends measured on this machine, by kind of call.

`graphut bench attention --remember` writes the file; `backend="auto"` reads it once.
"""

from __future__ import annotations

import platform
import warnings
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from graphut._files import cache_folder, read_json, write_json
from graphut._version import __version__
from graphut.attention.call import AttentionCall
from graphut.attention.layout import EdgeLayout, IntervalLayout
from graphut.attention.transforms import in_transform

_choices: dict[str, str] | None = None  # by kind of call; None before the file is read
_refused: set[str] = set()  # backends with a warning


def cache_file() -> Path:
    """Return the file of measurements, `backends.json` in graphut's cache folder.

    The folder is `$GRAPHUT_CACHE`, or `graphut` in `$XDG_CACHE_HOME` or `~/.cache`.
    """
    return cache_folder() / "backends.json"


def call_kind(layout: EdgeLayout, device: str, dtype: torch.dtype, biased: bool) -> str:
    """Return the kind of a call: the properties that measurements distinguish.

    Examples
    --------
    >>> from graphut.topology import Causal
    >>> call_kind(Causal().layout([2]), "cpu", torch.float32, biased=False)
    'interval cpu float32 plain'
    """
    shape = "interval" if isinstance(layout, IntervalLayout) else "csr"
    return f"{shape} {device} {str(dtype).removeprefix('torch.')} {'bias' if biased else 'plain'}"


def remember(kind: str, backend: str) -> Path:
    """Store the fastest backend for a kind of call, and return the file.

    Other entries of this machine and version are kept. The choice takes effect in this process too.
    """
    global _choices
    path = cache_file()
    _choices = {**_load(path, warn=False), kind: backend}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"graphut": __version__, "machine": cpu_name(), "backends": _choices})
    return path


def measured_backend(call: AttentionCall, able: Collection[str]) -> str | None:
    """Return the stored backend for a call, if it is one of those that support the call."""
    if call.dropout or call.need_weights or in_transform():
        return None
    device, dtype = call.query.device.type, call.query.dtype
    name = _lookup(call_kind(call.layout, device, dtype, call.has_bias))
    if name is None or name in able:
        return name
    if name not in _refused:
        _refused.add(name)
        warnings.warn(
            f"{cache_file()} names the backend {name!r}, which does not support this call "
            f"({', '.join(able)} do): it is ignored",
            stacklevel=2,
        )
    return None


def _lookup(kind: str) -> str | None:
    global _choices
    if _choices is None:
        _choices = _load(cache_file(), warn=True)
    return _choices.get(kind)


# torch.compile takes the result as a constant, and does not trace the reading of the file.
# torch.compiler.assume_constant_result does the same, but its import of the compiler is slow.
_lookup._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _load(path: Path, warn: bool) -> dict[str, str]:
    """Return the choices in a file; none if it is missing, damaged or of another machine."""
    if not path.is_file():
        return {}
    try:
        return _checked(read_json(path))
    except (OSError, ValueError) as error:
        if warn:
            warnings.warn(
                f"{path} is ignored: {error}; write it anew with "
                "`graphut bench attention --remember`",
                stacklevel=2,
            )
        return {}


def _checked(content: Any) -> dict[str, str]:
    choices = content.get("backends") if isinstance(content, dict) else None
    if not isinstance(choices, dict) or not all(isinstance(v, str) for v in choices.values()):
        raise ValueError('it has no table "backends" of names')
    for what, here in (("graphut", __version__), ("machine", cpu_name())):
        if content.get(what) != here:
            raise ValueError(f"it was written with {what} {content.get(what)!r}, this is {here!r}")
    return choices


@lru_cache(maxsize=1)
def cpu_name() -> str:
    """Return the model name of the processor, or the architecture if the system has no name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return (named or [platform.processor() or platform.machine() or "unknown"])[0]
