"""Registry of the names and the operators in spec strings."""

import re
from collections import UserDict
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

Maker = TypeVar("Maker", bound=Callable[..., Any])

_MODULES = {
    "binary_partition": "binary_partition",
    "edges": "ancestors edges tree",
    "global_tokens": "bigbird exphormer global last longformer star virtual",
    "random_graphs": "expander random",
    "window": "axial causal complete dilated fixed patch strided window",
}


class _Registry(UserDict[str, Any]):
    """Classes and functions by name; a module of this package is imported at its first use."""

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if isinstance(module := self.data[name], str):
            import_module(module)  # registers its names
        make: Callable[..., Any] = self.data[name]
        return make


# By name in spec strings, such as "window".
registry = _Registry(
    {n: f"{__package__}.{file}" for file in _MODULES for n in _MODULES[file].split()}
)
operators: dict[str, Callable[..., Any]] = {}  # "|" and "&"; `Topology` cannot import them


def register_composition(make: Maker) -> Maker:
    """Register a function that spec strings can call: `longformer:8,1` is `longformer(8, 1)`.

    Use it as a decorator. The function returns a topology, such as a union of others. Its
    parameters are integers, and the last parameter may be a `seed`.

    Examples
    --------
    >>> from graphut.topology import Causal, Window, parse
    >>> @register_composition
    ... def recent(radius: int):
    ...     return Window(radius) & Causal()
    >>> parse("recent:3").spec()
    'window:3&causal'
    """
    register(make.__name__, make)
    return make


def register(name: Any, make: Callable[..., Any]) -> None:
    """Register a name for spec strings; raise `TypeError` if it is malformed or already taken."""
    label = getattr(make, "__name__", repr(make))
    if not isinstance(name, str) or not re.fullmatch("[a-z][a-z0-9_]*", name):
        raise TypeError(
            f"{label}.name is {name!r}: a topology needs a name of lower-case "
            'letters, digits and underscores, such as name = "window"'
        )
    other = make if registry.data.get(name) == make.__module__ else registry.get(name)
    # A topology may be defined again, for example in a notebook.
    if other and (other.__module__, other.__qualname__) != (make.__module__, make.__qualname__):
        raise TypeError(
            f"{label}.name is {name!r}, which is the name of "
            f"{other.__module__}.{other.__qualname__}: choose another name"
        )
    registry[name] = make
