"""Checks of values that are known only in a call: features and halting probabilities."""

from math import isfinite

from torch import Tensor


class FiniteChecks:
    """Checks of features and probabilities, for which the host waits."""

    def check_features(self, feat: Tensor) -> None:
        """Raise an error if a value of the initial states `feat`, `(N_src, d)`, is not finite."""
        # A sum needs one pass and no memory.
        if isfinite(feat.detach().sum().item()) or bool(feat.isfinite().all()):
            return
        node, column = (~feat.isfinite()).nonzero()[0].tolist()
        raise ValueError(
            f"feature {column} of node {node} is {feat[node, column].item()}; features must be "
            "finite numbers"
        )

    def check_probability(self, probability: Tensor, nodes: Tensor | None, step: int) -> None:
        """Raise an error if a halting probability, `(A,)`, is NaN or outside [0, 1]."""
        if not probability.numel():
            return
        if probability.requires_grad:
            probability = probability.detach()
        low, high = probability.aminmax()
        if low.item() >= 0.0 and high.item() <= 1.0:  # False for NaN
            return
        row = int(wrong_probabilities(probability).nonzero()[0])
        node = row if nodes is None else int(nodes[row])
        raise ValueError(probability_error(node, step, bool(probability[row].isnan())))

    def close(self) -> None:
        """Finish the checks of one call; this class has nothing left to do, unlike a subclass."""


FINITE_CHECKS = FiniteChecks()


def wrong_probabilities(probability: Tensor) -> Tensor:
    """Return an int32 code for each probability: 0 in [0, 1], 1 outside, 2 for NaN."""
    p = probability.detach()
    return (~((p >= 0.0) & (p <= 1.0))).int() + p.isnan()


def probability_error(node: int, step: int, is_nan: bool) -> str:
    """Return the error message for a halting probability that is NaN or outside [0, 1]."""
    if is_nan:
        return (
            f"the halting probability of node {node} is NaN at step {step}: a weight of the model "
            "or a state that it attends to is not finite; lower the learning rate or clip gradients"
        )
    return (
        f"the halting probability of node {node} is outside of [0, 1] at step {step}; let the "
        "halting module end with a sigmoid"
    )


def check_probability_shape(probability: Tensor, rows: int) -> None:
    """Raise an error unless halting probabilities are `(rows,)` and floating point."""
    if probability.shape != (rows,) or not probability.is_floating_point():
        raise ValueError(
            f"the halting module returned {tuple(probability.shape)} of {probability.dtype} for "
            f"{rows} rows; it must return ({rows},) floating-point probabilities, one for each row "
            "(take [:, 0] of a column)"
        )
