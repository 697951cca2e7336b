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
        `(target tokens, target vocabulary)`, of the token that comes next at each target token;
        `graphut.sentences.target_labels` are the right ones.
    encoder, decoder : Ponder
        How long the source and the target nodes pondered. The extra nodes of a topology are
        computed like tokens: they are nodes of these records, and count in their costs.
    """

    logits: Tensor
    encoder: Ponder
    decoder: Ponder


class LMOutput(NamedTuple):
    """What a language model says of a batch.

    Parameters
    ----------
    logits : Tensor
        `(tokens, vocabulary)`, of the token that comes next at each that is fed.
    labels : Tensor
        `(tokens,)` int64, the token that does come next.
    ponder : Ponder
        How long the nodes pondered: the tokens, and the extra nodes of the topology.
    steps : Tensor
        `(tokens,)` int64, the steps of the tokens alone.
    lengths : Tensor
        `(batch,)` int64 on the CPU, how many of the tokens are of each text.
    """

    logits: Tensor
    labels: Tensor
    ponder: Ponder
    steps: Tensor
    lengths: Tensor


class ClassifierOutput(NamedTuple):
    """What a classifier says of a batch of documents.

    Parameters
    ----------
    logits : Tensor
        `(batch, classes)`
    ponder : Ponder
        How long the nodes pondered: the sentences, and the extra nodes of the topology.
    steps : Tensor
        `(sentences,)` int64, the steps of the sentences alone.
    lengths : Tensor
        `(batch,)` int64 on the CPU, how many of the sentences are of each document.
    """

    logits: Tensor
    ponder: Ponder
    steps: Tensor
    lengths: Tensor


class PointerOutput(NamedTuple):
    """Where a pointer points in a batch of passages.

    Parameters
    ----------
    scores : Tensor
        `(tokens,)`, the log-probability of each place, normalised over its passage.
    tokens : Tensor
        `(tokens,)` int64, the word at each place.
    ponder : Ponder
        How long the nodes pondered: the words, and the extra nodes of the topology.
    steps : Tensor
        `(tokens,)` int64, the steps of the words alone.
    lengths : Tensor
        `(batch,)` int64 on the CPU, how many of the places are of each passage.
    """

    scores: Tensor
    tokens: Tensor
    ponder: Ponder
    steps: Tensor
    lengths: Tensor
