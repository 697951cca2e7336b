"""Checks for values that are not finite."""

from __future__ import annotations

from torch import Tensor

from graphut.attention.checks import is_tracing


class FiniteChecks:
    """Checks that wait for the device."""

    def check_features(self, feat: Tensor) -> None:
        """Raise if one of the first states, `(N_src, d)`, is not finite."""
        # A sum needs one pass and no memory.
        if is_tracing() or bool(feat.detach().sum().isfinite()) or bool(feat.isfinite().all()):
            return
        node, column = (~feat.isfinite()).nonzero()[0].tolist()
        raise ValueError(
            f"feature {column} of node {node} is {feat[node, column].item()}; features must be "
            "finite numbers"
        )

    def check_probability(self, probability: Tensor, nodes: Tensor | None, step: int) -> None:
        """Raise if a halting probability, `(A,)`, is not between 0 and 1."""
        if not probability.numel() or is_tracing():
            return
        low, high = probability.detach().aminmax()
        if bool((low >= 0.0) & (high <= 1.0)):  # False for NaN
            return
        row = int(wrong_probabilities(probability).nonzero()[0])
        node = row if nodes is None else int(nodes[row])
        raise ValueError(probability_error(node, step, bool(probability[row].isnan())))

    def bound(self, count: Tensor) -> int:
        """Return the number of active nodes, or an upper bound."""
        return int(count)

    def close(self) -> None:
        """End the checks of one call."""


def wrong_probabilities(probability: Tensor) -> Tensor:
    """Return 1 for probabilities outside [0, 1], 2 for NaN, 0 for others; int32."""
    p = probability.detach()
    return (~((p >= 0.0) & (p <= 1.0))).int() + p.isnan()


def probability_error(node: int, step: int, is_nan: bool) -> str:
    """Return the message for a halting probability that is NaN or out of range."""
    if is_nan:
        return (
            f"the halting probability of node {node} is NaN at step {step}: a weight of the model "
            "or a state that it attends to is not finite; lower the learning rate or clip gradients"
        )
    return (
        f"the halting probability of node {node} is outside of [0, 1] at step {step}; let the "
        "halting module end with a sigmoid"
    )
