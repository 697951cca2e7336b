"""Lazy imports: a package imports its public names when they are first used (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a function `__getattr__` for a package, which imports public names at first use.

    `modules` maps each public name to the module that defines it; a name that equals its module
    stands for the module itself. Importing the package is then fast, without importing torch.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{package}.{modules[name]}")
        value = module if name == modules[name] else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    return get
