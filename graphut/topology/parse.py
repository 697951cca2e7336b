"""Parser of spec strings such as `window:8|causal`."""

import ast
import re
from collections.abc import Mapping
from difflib import get_close_matches
from inspect import Signature, signature

from graphut.topology.base import Topology
from graphut.topology.registry import find, registry

_INTEGER = r"\s*-?[0-9]+\s*"
_ARGUMENTS = re.compile(rf"\s*(?::({_INTEGER}(?:,{_INTEGER})*))?(?:@({_INTEGER}))?")


def parse(spec: str | Topology) -> Topology:
    """Return the topology of a spec string; a topology is returned unchanged.

    A spec is a name with integers, as in `window:8` or `global:0,1`, and optionally a seed, as in
    `random:8@7`. The operators `|` (union) and `&` (intersection, higher precedence) combine specs,
    and parentheses group them. `parse(t.spec()) == t` for every topology `t`.

    Raises
    ------
    TypeError, ValueError
        If `spec` is not a string, or not a valid spec.

    Examples
    --------
    >>> parse("window:8 & causal")
    Intersection(left=Window(radius=8), right=Causal())
    """
    if isinstance(spec, Topology):
        return spec
    if not isinstance(spec, str):
        raise TypeError(f"spec must be a string such as 'window:8', got {spec!r}")
    topologies: dict[str, Topology] = {}
    expression = ""
    for part in map(str.strip, re.split("([|&()])", spec)):
        if part not in ("", *"|&()"):
            topologies[f"t{len(topologies)}"] = _named(part)
            part = [*topologies][-1]
        expression += part
    try:  # the operators have the same precedence in Python
        return _combined(ast.parse(expression, mode="eval").body, topologies)
    except SyntaxError:
        raise ValueError(
            f"{spec!r} is not a topology: write | or & between two topologies, and close "
            "parentheses, as in '(window:8|global:0)&causal'"
        ) from None


def _combined(node: ast.expr, topologies: Mapping[str, Topology]) -> Topology:
    match node:
        case ast.Name(name):
            return topologies[name]
        case ast.BinOp(left, ast.BitOr(), right):
            return _combined(left, topologies) | _combined(right, topologies)
        case ast.BinOp(left, ast.BitAnd(), right):
            return _combined(left, topologies) & _combined(right, topologies)
    raise SyntaxError


def _named(text: str) -> Topology:
    """Return the topology of a spec without operators."""
    name = re.split(r"[:@\s]", text)[0]
    if name not in registry:
        near = get_close_matches(name, registry, n=1)
        meant = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(registry))}"
        advice = "import the module of your own topology first (--import MODULE)"
        raise ValueError(f"unknown topology {name!r}: {meant}; {advice}")
    match = _ARGUMENTS.fullmatch(text.removeprefix(name))
    if match is None:
        raise ValueError(
            f"{text!r:.80} is not a topology such as 'window:8', 'global:0,1' or 'random:8@7'"
        )
    values = [int(number) for number in match[1].split(",")] if match[1] else []
    seed = {"seed": int(match[2])} if match[2] else {}
    parameters = signature(find(name)).parameters
    if seed and "seed" not in parameters:
        raise ValueError(f"{name} takes no seed, got {text!r}")
    integers = [each for each in parameters.values() if each.name != "seed"]
    try:
        Signature(integers).bind(*values)
    except TypeError:
        names = ", ".join(each.name for each in integers)
        takes = f"integers for {names}" if names else "no integers"
        raise ValueError(f"{name} takes {takes}, got {values}") from None
    topology: Topology = find(name)(*values, **seed)
    return topology
