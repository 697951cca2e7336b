"""Registry of the names and the operators in spec strings."""

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

_MODULES = {
    "binary_partition": "binary_partition",
    "edges": "edges",
    "global_tokens": "bigbird global star virtual",
    "random_graphs": "expander random",
    "window": "axial causal complete dilated patch strided window",
}
# The module of each name of this package.
HOMES = {
    name: f"{__package__}.{file}" for file, names in _MODULES.items() for name in names.split()
}
# Classes and functions by name, such as "window", or the module that registers them.
registry: dict[str, Any] = {**HOMES}
operators: dict[str, Callable[..., Any]] = {}  # "|" and "&"; `Topology` cannot import them


def find(name: str) -> Any:
    """Return the class or function of a name; import the module that registers it."""
    if isinstance(module := registry[name], str):
        import_module(module)
    return registry[name]


def register(name: Any, make: Callable[..., Any]) -> None:
    """Register a name for spec strings; raise `TypeError` if it is malformed or of this package."""
    label = getattr(make, "__name__", repr(make))
    if not isinstance(name, str) or not re.fullmatch("[a-z][a-z0-9_]*", name):
        raise TypeError(
            f"{label}.name is {name!r}: a topology needs a name of lower-case "
            'letters, digits and underscores, such as name = "window"'
        )
    if HOMES.get(name, make.__module__) != make.__module__:
        raise TypeError(f"{label}.name is {name!r}, a topology of graphut: choose another name")
    registry[name] = make
