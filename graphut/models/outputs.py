"""Results of models: of `forward` (...Output), `predict` (...Prediction) and `generate`."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor

from graphut.nn import Ponder
from graphut.nn.loop import FrontierRows


class SequenceOutput(NamedTuple):
    """The output of a `UniversalTransformer` for a batch.

    `graphut.sentences.target_labels` returns the labels of `logits`.
    """

    logits: Tensor  #: `(target tokens, target vocabulary)`, of the next token at each target token
    encoder: Ponder  #: record of the source nodes, including extra nodes
    decoder: Ponder  #: record of the target nodes, including extra nodes


class LMOutput(NamedTuple):
    """The output of a `UniversalTransformerLM` for a batch."""

    logits: Tensor  #: `(tokens, vocabulary)`, logits of the next token at each input token
    labels: Tensor  #: `(tokens,)` int64, the next tokens
    ponder: Ponder  #: record of the tokens and of the extra nodes of the topology
    steps: Tensor  #: `(tokens,)` int64, the number of steps of each token
    lengths: Tensor  #: `(batch,)` int64 on the CPU, the number of tokens of each text


class GraphOutput(NamedTuple):
    """The output of a `UniversalGraphTransformer` for a graph or a batch of graphs.

    The shape of `logits` is `(nodes, classes)`, `(graphs, classes)` or `(edges,)`. For edges, they
    are the log-probability of each edge among the in-edges of its destination. With the layer
    "registers", they are 0 for the best edge in evaluation and `-inf` for the others; all in-edges
    of a node that no start reaches have `-inf`.
    """

    logits: Tensor
    ponder: Ponder  #: record of the nodes
    steps: list[FrontierRows] | None = None  #: states of active nodes per step, with `get_steps`


@dataclass(frozen=True)
class GraphPrediction:
    """The predictions for one graph: for its nodes, for its edges, or for the graph as a whole."""

    #: The class of each node, or of the graph: its name, or its number if the model has no names.
    #: With `answer_at="edge"`: for each node, the index of its likeliest source, or None if no
    #: start reaches the node (see `RegisterMessages`). With `answer_kind="values"`: empty.
    labels: list[Any]
    #: `(nodes, classes)` or `(1, classes)`; None for "values". With
    #: `answer_at="edge"`: `(edges,)`, of each edge among the in-edges of its destination; the edges
    #: of the graph come first, then the self-loops that `predict` added.
    probabilities: Tensor | None
    values: Tensor | None  #: `(nodes, values)` or `(1, values)` with "values", else None
    steps: Tensor  #: `(nodes,)` int64, the number of steps, or of event-driven updates, of a node


@dataclass(frozen=True)
class Generation:
    """A generated sequence; with `get_attention`, also `Ponder` records with attention weights."""

    tokens: list[int]  #: the generated tokens, without `bos` and `eos`
    score: float  #: log-probability of the sequence, in nats, including a generated `eos`
    steps: list[int]  #: the number of steps of each generated token, including `eos`
    source_steps: list[int]  #: the number of steps of each token of the source, or of the prompt
    encoder: Ponder | None = field(default=None, compare=False, repr=False)
    decoder: Ponder | None = field(default=None, compare=False, repr=False)

    @property
    def ended(self) -> bool:
        """Whether the sequence ended with `eos`, and not at the maximum length."""
        return len(self.steps) > len(self.tokens)
