"""Results of models: of `forward` (...Output), `predict` (...Prediction) and `generate`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor

from graphut.nn import Ponder
from graphut.nn.loop_state import FrontierRows
from graphut.nn.steps_html import steps_html


class SequenceOutput(NamedTuple):
    """The output of a `UniversalTransformer` for a batch.

    Parameters
    ----------
    logits : Tensor
        `(target tokens, target vocabulary)`, logits of the next token at each target token;
        `graphut.sentences.target_labels` returns the labels.
    encoder, decoder : Ponder
        Records of the source nodes and of the target nodes, including the extra nodes of a
        topology.
    """

    logits: Tensor
    encoder: Ponder
    decoder: Ponder


class LMOutput(NamedTuple):
    """The output of a `UniversalTransformerLM` for a batch.

    Parameters
    ----------
    logits : Tensor
        `(tokens, vocabulary)`, logits of the next token at each input token.
    labels : Tensor
        `(tokens,)` int64, the next tokens.
    ponder : Ponder
        Record of the nodes: the tokens, and the extra nodes of the topology.
    steps : Tensor
        `(tokens,)` int64, the number of steps of each token.
    lengths : Tensor
        `(batch,)` int64 on the CPU, the number of tokens of each text.
    """

    logits: Tensor
    labels: Tensor
    ponder: Ponder
    steps: Tensor
    lengths: Tensor


class StepAnswers(NamedTuple):
    """The predictions of a `UniversalTransformerClassifier` after one step.

    Parameters
    ----------
    documents : Tensor
        int64, the documents whose last sentence was active in this step.
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
        As in `LMOutput`, for the sentences of each document.
    answers : list of StepAnswers, optional
        The predictions after every step, with `get_steps=True`.
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
        As in `LMOutput`, for the words of each passage.
    """

    scores: Tensor
    tokens: Tensor
    ponder: Ponder
    steps: Tensor
    lengths: Tensor


class GraphOutput(NamedTuple):
    """The output of a `UniversalGraphTransformer` for a graph or a batch of graphs.

    Parameters
    ----------
    logits : Tensor
        `(nodes, classes)`, `(graphs, classes)`, or `(edges,)`: the log-probability of each edge
        among the in-edges of its destination.
    ponder : Ponder
        Record of the nodes.
    steps : list of FrontierRows, optional
        The active nodes of each step, with `get_steps=True`; see `AdaptiveRecurrence`.
    """

    logits: Tensor
    ponder: Ponder
    steps: list[FrontierRows] | None = None


@dataclass(frozen=True)
class ClassifierPrediction:
    """The predicted class of a document.

    Parameters
    ----------
    label : int
        The most likely class.
    log_probabilities : list of float
        The log-probability of each class, in nats.
    steps : list of int
        The number of steps of each sentence.
    """

    label: int
    log_probabilities: list[float]
    steps: list[int]


@dataclass(frozen=True)
class PointerPrediction:
    """The predicted word of a passage.

    Parameters
    ----------
    word : int
        The most likely word, summed over all of its positions.
    log_probability : float
        The log-probability of `word`, in nats.
    probabilities : list of float
        The probability of each position of the passage.
    steps : list of int
        The number of steps of each word.
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
        Log-probability of the sequence, in nats, including `eos` if it was generated.
    steps : list of int
        The number of steps of each generated token, including `eos` if it was generated.
    source_steps : list of int
        The number of steps of each source token, or of each token of the prompt.
    encoder, decoder : Ponder, optional
        Records of the nodes of the sequence, with attention weights, if `get_attention=True`. A
        language model has no encoder.
    """

    tokens: list[int]
    score: float
    steps: list[int]
    source_steps: list[int]
    encoder: Ponder | None = field(default=None, compare=False, repr=False)
    decoder: Ponder | None = field(default=None, compare=False, repr=False)

    @property
    def ended(self) -> bool:
        """True if `eos` was generated before the maximum length was reached."""
        return len(self.steps) > len(self.tokens)

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: the tokens, shaded by their numbers of steps."""
        read = range(1, len(self.source_steps) + 1)
        written = [*self.tokens, "eos"][: len(self.steps)]
        return steps_html({"read": (read, self.source_steps), "written": (written, self.steps)})
