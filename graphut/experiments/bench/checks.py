"""Checks of the arguments of benchmarks, which do not import torch."""

from __future__ import annotations

import re
from pathlib import Path

from graphut.models.config import ModelConfig, UniversalGraphTransformerConfig
from graphut.nn import EventDriven, parse_rule
from graphut.topology import Topology


def parse_shape(shape: str) -> tuple[int, int, int]:
    """Return the number of sentences, and the smallest and the largest length of a sentence.

    Raise `ValueError` if the shape is malformed.

    Examples
    --------
    >>> parse_shape("64x10-60"), parse_shape("8x400")
    ((64, 10, 60), (8, 400, 400))
    """
    parts = re.fullmatch(r"([1-9]\d{0,8})x(\d{1,9})(?:-(\d{1,9}))?", shape)
    if parts is None:
        raise ValueError(f"{shape!r} is not a shape such as 64x10-60 or 8x400")
    sentences, shortest, longest = (int(part or parts[2]) for part in parts.groups())
    if not 1 <= shortest <= longest:
        lengths = shape.partition("x")[2]
        raise ValueError(f"lengths must be LOW-HIGH with 1 <= LOW <= HIGH, got {lengths!r}")
    return sentences, shortest, longest


def check_heads(dim: int, heads: int) -> None:
    """Raise `ValueError` if `dim` features cannot be divided evenly among attention heads."""
    if heads < 1 or dim < 1 or dim % heads:
        raise ValueError(f"{dim} features do not divide into {heads} heads")


def check_tokens_only(topology: Topology) -> None:
    """Raise `ValueError` if a topology adds extra nodes to the tokens of a sentence."""
    if topology.has_extra_nodes:
        raise ValueError(f"{topology} has nodes that are not tokens: choose another topology")


def check_active(fraction: float) -> None:
    """Raise `ValueError` unless a share of active nodes is in (0, 1]."""
    if not 0.0 < fraction <= 1.0:
        raise ValueError(f"the frontier must be a share in (0, 1], got {fraction}")


def check_graph(nodes: int, edges: int, seeds: int | None) -> None:
    """Raise `ValueError` if no graph has these numbers of nodes, edges and seeds."""
    seeds = 1 if seeds is None else seeds
    for name, number, least in (("nodes", nodes, 1), ("edges", edges, 0), ("seeds", seeds, 1)):
        if number < least:
            raise ValueError(f"--{name} must be at least {least}, got {number}")
    if seeds > nodes:
        raise ValueError(f"--seeds {seeds} is more than the {nodes} nodes")


def check_waking(run: str | Path, config: ModelConfig, *sizes: int) -> None:
    """Raise `ValueError` if a model's nodes do not wake, or a size of a graph is below 2."""
    rule = parse_rule(config.evaluation_rule or config.rule)
    is_of_graphs = isinstance(config, UniversalGraphTransformerConfig)
    if not (is_of_graphs and isinstance(rule, EventDriven)):
        raise ValueError(f"{run} has no model of graphs with the evaluation rule event_driven")
    if min(sizes) < 2:
        raise ValueError(f"a graph needs two nodes, got {min(sizes)}")
