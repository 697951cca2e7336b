"""Checks of options that several commands have, before torch is imported."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

RULES = (
    "fixed", "act", "threshold", "convergence", "event_driven", "ponder_net", "quantile", "sampled",
    "global",
)  # fmt: skip
"""The names of the halting rules of graphut."""

TOPOLOGIES = (
    "ancestors", "axial", "bigbird", "binary_partition", "causal", "complete", "dilated", "edges",
    "expander", "exphormer", "fixed", "global", "last", "longformer", "patch", "random", "star",
    "strided", "tree", "virtual", "window",
)  # fmt: skip
"""The names in the spec strings of the topologies of graphut."""


def check_device(name: str | None) -> None:
    """Raise `ValueError` for a device that is not None, "cpu", "cuda", or one such as "cuda:1"."""
    if name is not None and name.partition(":")[0] not in ("cpu", "cuda"):
        raise ValueError(f'--device must be "cpu", "cuda" or, of several, "cuda:1"; got {name!r}')


def check_names(options: Mapping[str, Any]) -> None:
    """Raise `ValueError` for an unknown halting rule or topology.

    Options whose names end with "rule" name a halting rule. Options whose names end with "topology"
    or "spec" contain specs of topologies, such as "window:3|global:0".
    """
    for option, value in options.items():
        for spec in value if isinstance(value, list) else [value]:
            if option.endswith("rule") and spec:
                _check_name("halting rule", spec.partition(":")[0], RULES)
            elif option.endswith(("topology", "spec", "specs")) and spec:
                for name in re.findall(r"(?:^|[|&(])\s*([a-z]\w*)", spec, re.I):
                    _check_name("topology", name, TOPOLOGIES)


def _check_name(what: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        near = get_close_matches(name, known, n=1)
        meant = f", did you mean {near[0]}? Known" if near else "; known"
        raise ValueError(
            f"unknown {what} {name!r}{meant} are {', '.join(known)}; --import MODULE adds your own"
        )
