"""Right answers by plain searches, for graphs with an edge from each node to itself."""

from __future__ import annotations

from collections import deque

from graphut.experiments.tasks import LabelledGraph


def neighbours_of(graph: LabelledGraph) -> dict[int, list[int]]:
    """The other nodes to which each node sends news."""
    found: dict[int, list[int]] = {node: [] for node in range(len(graph.nodes))}
    for source, target in graph.edges.T.tolist():
        if source != target:
            found[source].append(target)
    return found


def distances(graph: LabelledGraph, start: int) -> list[int]:
    """Edges from a node to each node; -1 where none lead."""
    neighbours, found, queue = neighbours_of(graph), [-1] * len(graph.nodes), deque([start])
    found[start] = 0
    while queue:
        node = queue.popleft()
        for other in neighbours[node]:
            if found[other] < 0:
                found[other] = found[node] + 1
                queue.append(other)
    return found


def marked(graph: LabelledGraph) -> list[int]:
    return [node for node, kind in enumerate(graph.nodes.tolist()) if kind == 1]
