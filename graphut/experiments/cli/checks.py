"""Checks of options that several commands have, before torch is imported."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from runpy import run_path
from typing import Any

from graphut._specs import Makers, TopologyParser, rule_settings, split_rule
from graphut.models.checked_config import parse_field

RULES: Mapping[str, Mapping[str, Any]] = {
    "fixed": {"halt_from": "input"},
    "act": {
        "threshold": 0.99, "halt_from": "input", "weighting": "sum", "forced_remainder": True,
        "cost": "steps+remainder",
    },
    "threshold": {"threshold": 0.5, "halt_from": "input"},
    "convergence": {"tol": 0.01, "patience": 1},
    "event_driven": {"tol": 0.0, "max_rounds": 0},
    "ponder_net": {"threshold": 0.95, "prior": 0.2, "beta": 0.01, "halt_from": "input"},
    "quantile": {"q": 0.5, "halt_from": "input"},
    "sampled": {"seed": 0, "halt_from": "input"},
    "global": {},
}  # fmt: skip
"""The halting rules of graphut by name, with the defaults of their settings."""

TOPOLOGIES: Makers = {
    "ancestors": lambda arity: None,
    "axial": lambda width: None,
    "bigbird": lambda radius, global_tokens, links, seed=0: None,
    "binary_partition": lambda spans: None,
    "causal": lambda: None,
    "complete": lambda: None,
    "dilated": lambda radius, dilation: None,
    "edges": lambda *ends: None,
    "expander": lambda degree, seed=0: None,
    "exphormer": lambda degree, virtual_nodes, seed=0: None,
    "fixed": lambda block, summary: None,
    "global": lambda *tokens: None,
    "last": lambda: None,
    "longformer": lambda radius, global_tokens: None,
    "patch": lambda width, radius: None,
    "random": lambda links, seed=0: None,
    "star": lambda: None,
    "strided": lambda stride: None,
    "tree": lambda arity: None,
    "virtual": lambda nodes: None,
    "window": lambda radius: None,
}
"""Functions with the names and parameters of the topologies of graphut."""

_OPERATORS: Makers = dict.fromkeys("|&", lambda left, right: None)


def check_device(name: str | None) -> None:
    """Raise `ValueError` for a device that is not None, "cpu", "cuda", or one such as "cuda:1".

    Raise it also for a GPU if torch has been built without support of GPUs.
    """
    if name is not None and not re.fullmatch(r"(cpu|cuda)(:\d+)?", name):
        raise ValueError(f'--device must be "cpu", "cuda" or, of several, "cuda:1"; got {name!r}')
    if name is not None and name.startswith("cuda") and _torch_is_for_cpus():
        raise ValueError(f"there is no device {name!r} here: Torch not compiled with CUDA enabled")


def _torch_is_for_cpus() -> bool:
    """Return whether torch's `version.py`, which does not import torch, names no GPU platform."""
    torch = find_spec("torch")
    if torch is None or torch.origin is None:
        return False
    version = Path(torch.origin).with_name("version.py")
    build = run_path(str(version)) if version.is_file() else {}
    return {build.get("cuda", ""), build.get("hip", "")} == {None}


def check_specs(options: Mapping[str, Any]) -> None:
    """Raise `ValueError` for a malformed spec, or an unknown halting rule, setting or topology.

    Options whose names end with "rule" name a halting rule. Options whose names end with "topology"
    or "spec" contain specs of topologies, such as "window:3|global:0".
    """
    for option, value in options.items():
        for spec in value if isinstance(value, list) else [value]:
            if spec and option.endswith(("rule", "topology", "spec", "specs")):
                check = _check_rule if option.endswith("rule") else _check_topology
                # With a task, it is an option of a model, whose errors name the option.
                parse_field(option, spec, check) if "task" in options else check(spec)


def _check_rule(spec: str) -> None:
    inner = spec.removeprefix("global:") or "global"
    defaults, settings = split_rule(inner, RULES)
    if defaults:
        rule_settings(inner.partition(":")[0], defaults, settings)


def _check_topology(spec: str) -> None:
    TopologyParser(spec, TOPOLOGIES, _OPERATORS).parse()
