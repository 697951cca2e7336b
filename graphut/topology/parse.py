"""Parser of spec strings such as `window:8|causal`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphut._specs import TopologyParser, signatures
from graphut.topology.base import Topology
from graphut.topology.registry import operators, registry


def parse(spec: str | Topology) -> Topology:
    """Return the topology of a spec string; a topology is returned unchanged.

    A spec is a name with integers, as in `window:8` or `global:0,1`, and optionally a seed, as in
    `random:8@7`. The operators `|` (union) and `&` (intersection, higher precedence) combine specs,
    and parentheses group them. `parse(t.spec()) == t` for every topology `t`.

    Raises
    ------
    TypeError, ValueError
        If `spec` is not a string, or not a valid spec; a caret marks the position of the mistake.

    Examples
    --------
    >>> parse("window:8 & causal")
    Intersection(left=Window(radius=8), right=Causal())
    """
    if isinstance(spec, Topology):
        return spec
    if not isinstance(spec, str):
        raise TypeError(f"spec must be a string such as 'window:8', got {spec!r}")
    topology: Topology = _Parser(spec, registry, operators).parse()
    return topology


def spec_signatures() -> list[str]:
    """Return the syntax of each named spec, with the names of its integers and its seed.

    Examples
    --------
    >>> spec_signatures()[:3]
    ['ancestors:arity', 'axial:width', 'bigbird:radius,global_tokens,links@seed']
    """
    return signatures(registry)


class _Parser(TopologyParser):
    def make(self, position: int, maker: Callable[..., Any], *values: Any, **seed: int) -> Any:
        made = super().make(position, maker, *values, **seed)
        if not isinstance(made, Topology):
            self.fail(f"{maker} is registered as a topology but returned {made!r}", position)
        return made
