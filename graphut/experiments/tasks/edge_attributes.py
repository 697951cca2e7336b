"""Weights, features and types of the edges of a user's graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphut.experiments.tasks.graph_targets import name_of, row_of_numbers
from graphut.experiments.tasks.vocabulary import RESERVED, Vocabulary

# The names under which networkx, DGL and PyG store them.
WEIGHTS, FEATURES = ("weight", "edge_weight"), ("feat", "edge_attr")
TYPES = ("type", "edge_type", "etype")


@dataclass(frozen=True, eq=False)
class EdgeAttributes:
    """The attributes of the edges of a graph; None if the edges do not have them.

    The self-loops that were added have the weight 1, zeros as features, and no type.
    """

    weights: NDArray[np.float32] | None = None  # (E,)
    feats: NDArray[np.float32] | None = None  # (E, F)
    types: list[str | None] | None = None  # (E,)

    @classmethod
    def read(cls, edges: Sequence[Mapping[str, Any]], loops: int) -> EdgeAttributes:
        """Read the attributes of edges, which are followed by self-loops without attributes."""
        types = [name_of(value) for value in _column(edges, TYPES)]
        given = {what: _numbers(edges, what) for what in (WEIGHTS, FEATURES)}
        return cls.of_arrays(given[WEIGHTS], given[FEATURES], types, loops)

    @classmethod
    def of_arrays(
        cls,
        weights: NDArray[Any] | None,
        feats: NDArray[Any] | None,
        types: Sequence[str | None],
        loops: int,
    ) -> EdgeAttributes:
        """Check attributes, and add those of self-loops. Weights of 1 count as none."""
        if weights is not None:
            weights = np.append(weights.reshape(-1), np.ones(loops)).astype(np.float32)
            if not (np.isfinite(weights) & (weights > 0)).all():
                wrong = weights[~(np.isfinite(weights) & (weights > 0))][0]
                raise ValueError(
                    f"an edge has the weight {wrong}, but weights are positive: leave out edges of "
                    "weight 0, and give other numbers as `feat` of the edges"
                )
            weights = None if (weights == 1).all() else weights
        if feats is not None:
            feats = np.pad(feats.reshape(len(feats), -1), ((0, loops), (0, 0))).astype(np.float32)
            if not np.isfinite(feats).all():
                raise ValueError("an edge has a feature that is not a finite number")
        known = any(name is not None for name in types)
        return cls(weights, feats, [*types, *[None] * loops] if known else None)

    @property
    def num_feats(self) -> int:
        """The number of features of an edge, without its type."""
        return 0 if self.feats is None else self.feats.shape[1]

    def encoded(self, types: Vocabulary, num_feats: int, count: int) -> NDArray[np.float32] | None:
        """Return the features and the one-hot types of `count` edges, `(E, F)`, or None."""
        if self.num_feats != num_feats and count:
            raise ValueError(
                f"an edge has {self.num_feats} numbers in `feat`; expected {num_feats}"
            )
        if bool(self.types) and not types.symbols:
            raise ValueError("its edges have types, unlike the other graphs")
        if not num_feats and not types.symbols:
            return None
        found = np.zeros((count, num_feats + len(types.symbols)), np.float32)
        if self.feats is not None:
            found[:, :num_feats] = self.feats
        for edge, name in enumerate(self.types or ()):
            if name is not None:
                found[edge, num_feats + types.encode([name])[0] - len(RESERVED)] = 1
        return found


def _column(edges: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[Any]:
    name = next((own for own in names if any(own in edge for edge in edges)), names[0])
    return [edge.get(name) for edge in edges]


def _numbers(edges: Sequence[Mapping[str, Any]], names: Sequence[str]) -> NDArray[Any] | None:
    """Return `(E, K)` numbers, or None; raise `ValueError` if only some edges have them."""
    rows = []
    values = _column(edges, names)
    if all(value in (None, "") for value in values):
        return None
    for edge, value in zip(edges, values, strict=True):
        row = None if value in (None, "") else row_of_numbers(value)
        if row is None or (rows and len(row) != len(rows[0])):
            wanted = f"{len(rows[0])} numbers, as the others" if rows else "numbers"
            raise ValueError(
                f"an edge, {dict(edge)!r:.80}, has {value!r} as {' or '.join(names)}; expected "
                f"{wanted}"
            )
        rows.append(row)
    return np.array(rows)
