"""The results of models, from `forward` (...Output), `predict` (...Prediction) and `generate`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor

from graphut.nn import Ponder
from graphut.nn.loop import FrontierRows
from graphut.nn.ponder import steps_html


class SequenceOutput(NamedTuple):
    """The output of a `UniversalTransformer` for a batch."""

    #: `(target tokens, target vocabulary)`, of the token that comes next at each target token;
    #: `graphut.sentences.target_labels` are the right ones
    logits: Tensor
    encoder: Ponder  #: record of the source nodes, the extra nodes of a topology included
    decoder: Ponder  #: record of the target nodes, in the same way


class LMOutput(NamedTuple):
    """The output of a `UniversalTransformerLM` for a batch."""

    logits: Tensor  #: `(tokens, vocabulary)`, of the token that comes next at each input token
    labels: Tensor  #: `(tokens,)` int64, the token that does come next
    ponder: Ponder  #: record of the tokens, and of the extra nodes of the topology
    steps: Tensor  #: `(tokens,)` int64, the steps of the tokens alone
    lengths: Tensor  #: `(batch,)` int64 on the CPU, the number of tokens of each text


class ClassifierOutput(NamedTuple):
    """The output of a `UniversalTransformerClassifier` for a batch of documents."""

    logits: Tensor  #: `(batch, classes)`
    ponder: Ponder  #: record of the sentences, and of the extra nodes of the topology
    steps: Tensor  #: `(sentences,)` int64, the steps of the sentences alone
    lengths: Tensor  #: `(batch,)` int64 on the CPU, the number of sentences of each document


class PointerOutput(NamedTuple):
    """The output of a `UniversalTransformerPointer` for a batch of passages."""

    scores: Tensor  #: `(tokens,)`, log-probabilities of positions, normalised over each passage
    tokens: Tensor  #: `(tokens,)` int64, the word at each position
    ponder: Ponder  #: record of the words, and of the extra nodes of the topology
    steps: Tensor  #: `(tokens,)` int64, the steps of the words alone
    lengths: Tensor  #: `(batch,)` int64 on the CPU, the number of words of each passage


class GraphOutput(NamedTuple):
    """The output of a `UniversalGraphTransformer` for a graph or a batch of them."""

    #: `(nodes, classes)`, `(graphs, classes)`, or `(edges,)`, the log-probability of each edge
    #: among the in-edges of its destination
    logits: Tensor
    ponder: Ponder  #: record of the nodes
    #: the active nodes of each step, see `AdaptiveRecurrence`; if asked for
    steps: list[FrontierRows] | None = None


@dataclass(frozen=True)
class ClassifierPrediction:
    """The likeliest class of a document."""

    label: int  #: the likeliest class
    log_probabilities: list[float]  #: the log-probability of each class, in nats
    steps: list[int]  #: ponder steps of each sentence


@dataclass(frozen=True)
class PointerPrediction:
    """The likeliest word of a passage."""

    word: int  #: the likeliest word, over all of its positions
    log_probability: float  #: the log-probability of `word`, in nats
    probabilities: list[float]  #: the probability of each position of the passage
    steps: list[int]  #: ponder steps of each word


@dataclass(frozen=True)
class Generation:
    """One generated sequence."""

    tokens: list[int]  #: the generated tokens, without `bos` and `eos`
    score: float  #: log-probability of the sequence, in nats, `eos` included if it came
    steps: list[int]  #: ponder steps of each generated token, `eos` included if it came
    source_steps: list[int]  #: ponder steps of each source token, or of each token of the prompt
    #: record of the source's nodes, with the attention weights, if asked for
    encoder: Ponder | None = field(default=None, compare=False, repr=False)
    #: record of the generated sequence's nodes; of a language model, with those of the prompt
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
