"""Public names of a package that are imported when they are first used (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package; `modules` has the module of each public name.

    A name whose module has the same name is that module. So importing the package is fast: torch
    alone takes a second.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{package}.{modules[name]}")
        value = module if name == modules[name] else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    return get
