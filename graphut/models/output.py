"""What a model hands back."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from graphut.nn import Ponder


class SequenceOutput(NamedTuple):
    """What a sequence-to-sequence model says of a batch.

    Parameters
    ----------
    logits : Tensor
        `(target nodes, target vocabulary)`, of the token that comes next at each target node.
    encoder, decoder : Ponder
        How long the source and the target nodes pondered.
    """

    logits: Tensor
    encoder: Ponder
    decoder: Ponder
