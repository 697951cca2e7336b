"""The names that spec strings know, and the callables that make their topologies.

Nothing here imports a topology, so that `Topology` can look up the classes behind its operators.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

Maker = TypeVar("Maker", bound=Callable[..., Any])

registry: dict[str, Callable[..., Any]] = {}  # by name in spec strings, such as "window"
operators: dict[str, Callable[..., Any]] = {}  # "|" and "&"


def register_composition(make: Maker) -> Maker:
    """Let spec strings call a function by its name: `longformer:8,1` for `longformer(8, 1)`.

    A decorator. The function takes integers, the last of which may be a `seed`, and returns
    a topology, whose own spec says what it is made of.

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
    """Let spec strings use a name; TypeError if it is malformed, or another topology's."""
    label = getattr(make, "__name__", repr(make))
    if not isinstance(name, str) or not re.fullmatch("[a-z][a-z0-9_]*", name):
        raise TypeError(
            f"{label}.name is {name!r}: a topology needs its own name for spec strings, "
            'of lower-case letters, digits and underscores, such as name = "window"'
        )
    known = registry.get(name)
    # The same topology may be defined again, as in a notebook's cell.
    if known and (known.__module__, known.__qualname__) != (make.__module__, make.__qualname__):
        raise TypeError(
            f"{label}.name is {name!r}, which {known.__module__}.{known.__qualname__} "
            "has taken: choose another"
        )
    registry[name] = make
