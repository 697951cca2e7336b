"""Lazy imports: a package imports its public names when they are first used (PEP 562)."""

import ast
import sys
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package that imports public names at first use.

    They know where the names are from the imports in the package's `if TYPE_CHECKING`. Importing
    the package is then fast, without importing torch.
    """

    @lru_cache(maxsize=1)
    def find_modules() -> dict[str, str]:
        loader: Any = sys.modules[package].__loader__
        nodes = ast.walk(ast.parse(loader.get_source(package)))
        imports = (node for node in nodes if isinstance(node, ast.ImportFrom))
        return {alias.name: str(node.module) for node in imports for alias in node.names}

    def get(name: str) -> Any:
        if name.startswith("__") or name not in find_modules():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = find_modules()[name]
        if module == package:  # the name of a module
            value: Any = import_module(f"{package}.{name}")
        else:
            value = getattr(import_module(module), name)
        setattr(sys.modules[package], name, value)
        return value

    def list_names() -> list[str]:
        return [*{*vars(sys.modules[package]), *sys.modules[package].__all__}]

    return get, list_names
