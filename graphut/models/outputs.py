"""The results of models, from `forward` (...Output), `predict` (...Prediction) and `generate`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor

from graphut.nn import Ponder
from graphut.nn.loop import FrontierRows
from graphut.nn.ponder import steps_html


class SequenceOutput(NamedTuple):
    """The output of a `UniversalTransformer` for a batch.

    Parameters
    ----------
    logits : Tensor
        `(target tokens, target vocabulary)`, of the token that comes next at each target token;
        `graphut.sentences.target_labels` are the right ones.
    encoder, decoder : Ponder
        Records of the source and the target nodes, the extra nodes of a topology included.
    """

    logits: Tensor
    encoder: Ponder
    decoder: Ponder


class LMOutput(NamedTuple):
    """The output of a `UniversalTransformerLM` for a batch.

    Parameters
    ----------
    logits : Tensor
        `(tokens, vocabulary)`, of the token that comes next at each input token.
    labels : Tensor
        `(tokens,)` int64, the token that does come next.
    ponder : Ponder
        Record of the nodes: the tokens, and the extra nodes of the topology.
    steps : Tensor
        `(tokens,)` int64, the steps of the tokens alone.
    lengths : Tensor
        `(batch,)` int64 on the CPU, the number of tokens of each text.
    """

    logits: Tensor
    labels: Tensor
    ponder: Ponder
    steps: Tensor
    lengths: Tensor


class StepAnswers(NamedTuple):
    """The answers of a `UniversalTransformerClassifier` after one step.

    Parameters
    ----------
    documents : Tensor
        int64, the documents whose last sentence has taken this step.
    logits : Tensor
        `(documents, classes)`
    """

    documents: Tensor
    logits: Tensor


class ClassifierOutput(NamedTuple):
    """The output of a `UniversalTransformerClassifier` for a batch of documents.

    Parameters
    ----------
    logits : Tensor
        `(batch, classes)`
    ponder, steps, lengths
        As for `LMOutput`, of the sentences of each document.
    answers : list of StepAnswers, optional
        The answers after every step, if asked for.
    """

    logits: Tensor
    ponder: Ponder
    steps: Tensor
    lengths: Tensor
    answers: list[StepAnswers] | None = None


class PointerOutput(NamedTuple):
    """The output of a `UniversalTransformerPointer` for a batch of passages.

    Parameters
    ----------
    scores : Tensor
        `(tokens,)`, the log-probability of each position, normalised over its passage.
    tokens : Tensor
        `(tokens,)` int64, the word at each position.
    ponder, steps, lengths
        As for `LMOutput`, of the words of each passage.
    """

    scores: Tensor
    tokens: Tensor
    ponder: Ponder
    steps: Tensor
    lengths: Tensor


class GraphOutput(NamedTuple):
    """The output of a `UniversalGraphTransformer` for a graph or a batch of them.

    Parameters
    ----------
    logits : Tensor
        `(nodes, classes)`, `(graphs, classes)`, or `(edges,)`: the log-probability of each edge
        among the in-edges of its destination.
    ponder : Ponder
        Record of the nodes.
    steps : list of FrontierRows, optional
        The active nodes of each step, see `AdaptiveRecurrence`; if asked for.
    """

    logits: Tensor
    ponder: Ponder
    steps: list[FrontierRows] | None = None


@dataclass(frozen=True)
class ClassifierPrediction:
    """The likeliest class of a document.

    Parameters
    ----------
    label : int
        The likeliest class.
    log_probabilities : list of float
        The log-probability of each class, in nats.
    steps : list of int
        Ponder steps of each sentence.
    """

    label: int
    log_probabilities: list[float]
    steps: list[int]


@dataclass(frozen=True)
class PointerPrediction:
    """The likeliest word of a passage.

    Parameters
    ----------
    word : int
        The likeliest word, over all of its positions.
    log_probability : float
        The log-probability of `word`, in nats.
    probabilities : list of float
        The probability of each position of the passage.
    steps : list of int
        Ponder steps of each word.
    """

    word: int
    log_probability: float
    probabilities: list[float]
    steps: list[int]


@dataclass(frozen=True)
class Generation:
    """One generated sequence.

    Parameters
    ----------
    tokens : list of int
        The generated tokens, without `bos` and `eos`.
    score : float
        Log-probability of the sequence, in nats, `eos` included if it came.
    steps : list of int
        Ponder steps of each generated token, `eos` included if it came.
    source_steps : list of int
        Ponder steps of each source token, or of each token of the prompt.
    encoder, decoder : Ponder, optional
        Records of the nodes of the sequence, with the attention weights, if asked for. A language
        model has no encoder.
    """

    tokens: list[int]
    score: float
    steps: list[int]
    source_steps: list[int]
    encoder: Ponder | None = field(default=None, compare=False, repr=False)
    decoder: Ponder | None = field(default=None, compare=False, repr=False)

    @property
    def ended(self) -> bool:
        """True if `eos` came before the longest length was reached."""
        return len(self.steps) > len(self.tokens)

    def _repr_html_(self) -> str:
        """Return the tokens shaded by their steps: what a notebook shows."""
        read = range(1, len(self.source_steps) + 1)
        written = [*self.tokens, "eos"][: len(self.steps)]
        return steps_html({"read": (read, self.source_steps), "written": (written, self.steps)})
