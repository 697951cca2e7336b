"""What is minimised."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import cross_entropy

from graphut.models import SequenceOutput


def sequence_loss(
    output: SequenceOutput, labels: Tensor, *, ponder_weight: float, label_smoothing: float = 0.0
) -> Tensor:
    """Cross-entropy of the labels plus the price of pondering (arXiv 1603.08983, Eq. 13).

    Parameters
    ----------
    output : SequenceOutput
        What a model says of `num_tokens` target nodes.
    labels : Tensor
        `(num_tokens,)` int64, the token that comes next at each.
    ponder_weight : float
        Times the ponder costs of encoder and decoder, each the mean over its nodes.
    label_smoothing : float
        Share of the target that is spread evenly over the vocabulary.

    Returns
    -------
    Tensor
        A scalar: the mean over tokens, in nats.
    """
    prediction = cross_entropy(output.logits, labels, label_smoothing=label_smoothing)
    return prediction + ponder_weight * (output.encoder.cost + output.decoder.cost)
