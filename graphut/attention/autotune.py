"""The backends that were measured to be fastest on this machine, by kind of call.

`graphut bench attention --remember` writes it down; `backend="auto"` reads it, once.
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

_choices: dict[str, str] | None = None  # by kind of call; None until the file has been looked for
_refused: set[str] = set()  # backends that were warned of


def cache_file() -> Path:
    """Return the file of measurements, `backends.json` in graphut's cache folder.

    That is `$GRAPHUT_CACHE`, or `graphut` in `$XDG_CACHE_HOME` or `~/.cache`.
    """
    return cache_folder() / "backends.json"


def call_kind(layout: EdgeLayout, device: str, dtype: torch.dtype, biased: bool) -> str:
    """Return the kind of a call: the properties that measurements tell apart.

    Examples
    --------
    >>> from graphut.topology import Causal
    >>> call_kind(Causal().layout([2]), "cpu", torch.float32, biased=False)
    'interval cpu float32 plain'
    """
    shape = "interval" if isinstance(layout, IntervalLayout) else "csr"
    return f"{shape} {device} {str(dtype).removeprefix('torch.')} {'bias' if biased else 'plain'}"


def remember(kind: str, backend: str) -> Path:
    """Write down the fastest backend for a kind of call, and return the file.

    Other entries of this machine and version are kept. Calls of this process follow at once.
    """
    global _choices
    path = cache_file()
    _choices = {**_load(path, warn=False), kind: backend}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"graphut": __version__, "machine": cpu_name(), "backends": _choices})
    return path


def measured_backend(call: AttentionCall, able: Collection[str]) -> str | None:
    """Return the remembered backend for a call, if it is among those that can do it."""
    if call.dropout or call.need_weights or in_transform():
        return None
    device, dtype = call.query.device.type, call.query.dtype
    name = _lookup(call_kind(call.layout, device, dtype, call.has_bias))
    if name is not None and name not in able:
        _refuse(name, able)
        return None
    return name


def _lookup(kind: str) -> str | None:
    global _choices
    if _choices is None:
        _choices = _load(cache_file(), warn=True)
    return _choices.get(kind)


# torch.compile does not trace the reading of a file: it takes the answer as a constant.
# torch.compiler.assume_constant_result does no more, but imports the compiler, which takes longer
# than importing everything else.
_lookup._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _load(path: Path, warn: bool) -> dict[str, str]:
    """Return the choices in a file; none if it is missing, damaged or another machine's."""
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


def _refuse(name: str, able: Collection[str]) -> None:
    if name not in _refused:
        _refused.add(name)
        warnings.warn(
            f"{cache_file()} names the backend {name!r}, which cannot do this call "
            f"({', '.join(able)} can): it is not followed",
            stacklevel=2,
        )


@lru_cache(maxsize=1)
def cpu_name() -> str:
    """Return the processor's name, as exactly as the system tells it.

    Examples
    --------
    >>> bool(cpu_name())
    True
    """
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return (named or [platform.processor() or platform.machine() or "unknown"])[0]
