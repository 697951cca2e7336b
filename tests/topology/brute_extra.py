"""Topologies with nodes that are not tokens, from their definitions."""

from __future__ import annotations

import torch
from torch import Tensor

from graphut.topology import BinaryPartition, Intersection, Star, Topology, Union, Virtual

Span = tuple[int, int]


def spans_of(topology: Topology, n: int) -> list[Span]:
    """The tokens `lo, ..., hi - 1` that each extra node stands for."""
    match topology:
        case Star():
            return [(0, n)]
        case Virtual(nodes):
            return [(0, n)] * nodes
        case BinaryPartition():
            sizes = [2**level for level in range(1, n.bit_length() + 1)]
            blocks = {(lo, min(lo + size, n)) for size in sizes for lo in range(0, n, size)}
            # By the level at which they have two halves.
            longer = [(lo, hi) for lo, hi in blocks if hi - lo > 1]
            return sorted(longer, key=lambda span: ((span[1] - span[0] - 1).bit_length(), span))
        case Union(left, right) | Intersection(left, right):
            return spans_of(left, n) + spans_of(right, n)
    return []


def mask(topology: Topology, n: int) -> Tensor:
    spans = spans_of(topology, n)
    mask = torch.zeros(n + len(spans), n + len(spans), dtype=torch.bool)
    for node, (lo, hi) in enumerate(spans, start=n):
        mask[node, lo:hi] = True
    match topology:
        case Virtual():
            mask[:n, n:] = True
        case Star():
            mask[:, n] = True
            for i in range(n):
                mask[i, [(i - 1) % n, i, (i + 1) % n]] = True
        case BinaryPartition(k):
            nodes = {(i, i + 1): i for i in range(n)}
            nodes |= {span: node for node, span in enumerate(spans, start=n)}
            for i in range(n):
                mask[i, [i] + [nodes[span] for span in context(i, n, k)]] = True
    return mask


def context(i: int, n: int, k: int) -> list[Span]:
    """What token `i` sees besides itself: on each level `k` pieces further, in both directions."""
    found = []
    right, left = i + 1, i  # seen so far are the tokens left, ..., right - 1
    for size in (2**level for level in range(n.bit_length() + 1)):
        for _ in range(k):
            if right < n:
                end = (right // size + 1) * size  # of the block, or of what is left of it
                found.append((right, min(end, n)))
                right = end
            if left > 0:
                start = (left - 1) // size * size
                found.append((start, left))
                left = start
    return found


def aligned(topology: Topology, left: Tensor, right: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Masks of the two sides of a pair over all nodes of the pair."""
    if isinstance(topology, Union):
        extra = len(left) - n
        size = len(left) + len(right) - n
        all_left, all_right = torch.zeros(2, size, size, dtype=torch.bool)
        all_left[: len(left), : len(left)] = left
        at = torch.tensor([*range(n), *range(n + extra, size)])
        all_right[at[:, None], at] = right
        return all_left, all_right
    last = torch.tensor([*range(n), *(hi - 1 for _, hi in spans_of(topology, n))])
    if len(left) > n:
        return left, right[last[:, None], last]
    return (left[last[:, None], last], right) if len(right) > n else (left, right)
