"""Checks of options that several commands have, before torch is imported."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from runpy import run_path
from typing import Any

from graphut.models.checked_config import parse_field
from graphut.nn import parse_rule
from graphut.topology import parse


def check_device(name: str | None) -> None:
    """Raise `ValueError` for a device that is not None, "cpu", "cuda", or one such as "cuda:1".

    Raise it also for a GPU if torch has been built without support of GPUs.
    """
    if name is not None and not re.fullmatch(r"(cpu|cuda)(:\d+)?", name):
        raise ValueError(f'--device must be "cpu", "cuda" or, of several, "cuda:1"; got {name!r}')
    if name is not None and name.startswith("cuda") and torch_is_for_cpus():
        raise ValueError(f"there is no device {name!r} here: Torch not compiled with CUDA enabled")


def torch_is_for_cpus() -> bool:
    """Return whether torch's `version.py`, which does not import torch, names no GPU platform."""
    torch = find_spec("torch")
    if torch is None or torch.origin is None:
        return False
    version = Path(torch.origin).with_name("version.py")
    build = run_path(str(version)) if version.is_file() else {}
    return {build.get("cuda", ""), build.get("hip", "")} == {None}


def check_specs(options: Mapping[str, Any]) -> None:
    """Raise `ValueError` for a malformed spec, or an unknown halting rule, setting or topology.

    Options whose names end with "rule" name a halting rule. Options whose names end with "topology"
    or "spec" contain specs of topologies, such as "window:3|global:0".
    """
    for option, value in options.items():
        for spec in value if isinstance(value, list) else [value]:
            if spec and option.endswith(("rule", "topology", "spec", "specs")):
                check: Callable[[str], object] = parse_rule if option.endswith("rule") else parse
                # With a task, it is an option of a model, whose errors name the option.
                parse_field(option, spec, check) if "task" in options else check(spec)
