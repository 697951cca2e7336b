"""A machine in a few words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphut.experiments.wording import counted


def machine_name(machines: Sequence[Mapping[str, Any]]) -> str:
    """The processors of one or several machines, with threads where they did the work.

    Examples
    --------
    >>> machine_name([{"cpu": "Abacus 9", "gpu": None, "threads": 2}])
    'Abacus 9, 2 threads'
    >>> machine_name([{"cpu": "Abacus 9", "gpu": "Loom 1", "threads": 2}])
    'Loom 1'
    """
    return "; ".join(dict.fromkeys(map(_name, machines)))


def _name(machine: Mapping[str, Any]) -> str:
    return machine["gpu"] or f"{machine['cpu']}, {counted(machine['threads'], 'thread')}"
