"""The outputs of models for texts, with the number of steps of each token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from shutil import get_terminal_size
from statistics import fmean
from textwrap import TextWrapper
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from graphut._tokens import BOS, EOS
from graphut.experiments.tasks import Vocabulary
from graphut.experiments.tasks.base import in_batches
from graphut.experiments.training.config import GenerationOptions
from graphut.models.outputs import Generation
from graphut.nn import Ponder
from graphut.nn.ponder import STOPPED, STOPPED_MEANING

if TYPE_CHECKING:
    from graphut.models import UniversalTransformer, UniversalTransformerLM

_BATCH = 100
_LABEL_WIDTH = 8  # columns


@dataclass(frozen=True)
class PonderedPart:
    """The nodes of an encoder or decoder for one text: names, numbers of steps and attention."""

    name: str  # "encoder" or "decoder"
    label: str  # heading of the names in a table; empty for sentences, one per line
    names: list[str]  # of tokens or sentences; in a decoder, of the tokens that it writes
    reads: list[str]  # names of the inputs; those of a decoder begin with <bos>
    steps: list[int]  # of the named nodes
    recorded: Ponder | None = None  # the record of all nodes, if attention was recorded
    is_listed: bool = True  # False for many nodes: only their least, most and mean steps are shown

    @property
    def ponder(self) -> Ponder:
        """All nodes' numbers of steps and attention weights; raise `ValueError` if not recorded."""
        if self.recorded is None:
            raise ValueError("the answer was generated without get_attention=True")
        return self.recorded

    @property
    def node_names(self) -> list[str]:
        """The names of all nodes of `ponder`; the name of an extra node of the topology is "*"."""
        return padded(self.names, len(self.ponder.steps))

    def table(self) -> str:
        """Return a text table of tokens (or sentences) and their numbers of steps, or a summary."""
        if not self.is_listed:
            least, most, mean = min(self.steps), max(self.steps), fmean(self.steps)
            return f"steps of {len(self.steps)} nodes: {least} to {most}, mean {mean:.2f}"
        stopped = None if self.recorded is None else self.recorded.stopped
        marked = [False] * len(self.steps) if stopped is None else stopped.tolist()
        counts = [f"{n}{STOPPED * marked[node]}" for node, n in enumerate(self.steps)]
        lines = [f"{n:>6}  {text}" for text, n in zip(self.names, counts, strict=True)]
        table = "\n".join(["steps", *lines])
        if self.label:
            table = steps_table(self.label, self.names, counts)
        return f"{table}\n{STOPPED} {STOPPED_MEANING}" if STOPPED in "".join(counts) else table


class Choice(NamedTuple):
    """The class that a model gives to a node or graph, and the correct one."""

    name: str  # of the node, or "graph"
    label: str
    predicted: str
    probability: float  # of the predicted class
    label_probability: float
    steps: int


@dataclass(frozen=True)
class Answer:
    """The output of a model for a text or an example, with the steps of each token or node."""

    text: str
    parts: list[PonderedPart]
    correct: str = ""  # the correct answer, if it is known and there is only one
    is_correct: bool | None = None  # None if unknown, or if an example has many answers
    note: str = ""  # last lines of the description
    score: float | None = None  # share of correct tokens or nodes
    choices: Sequence[Choice] = ()  # of the labelled nodes, or of the graph, if they have classes

    def __str__(self) -> str:
        """Return the table of steps of encoder and decoder, and below it the text `note`."""
        return "\n".join([*(part.table() for part in self.parts), *filter(None, [self.note])])


def written_tokens(result: Generation) -> list[int]:
    """Return the generated tokens, with `<eos>` if it was generated."""
    return [*result.tokens, EOS][: len(result.steps)]


def decoder_part(
    label: str,
    vocabulary: Vocabulary,
    tokens: Sequence[int],
    steps: Sequence[int],
    ponder: Ponder | None,
) -> PonderedPart:
    """Return the `PonderedPart` of a decoder: its generated tokens, and the steps of each token."""
    written, fed = (vocabulary.readable(each) for each in (tokens, [BOS, *tokens[:-1]]))
    return PonderedPart("decoder", label, written, fed, list(steps), ponder)


class AttentionTable(NamedTuple):
    """The attention weights of an encoder or decoder, with the names of queries and keys."""

    title: str
    weights: Tensor  # (steps, heads, queries, keys)
    queries: list[str]
    keys: list[str]


def attention_tables(parts: Sequence[PonderedPart]) -> Iterator[AttentionTable]:
    """Yield the self-attention of encoder and decoder, and the attention of decoder to encoder."""
    for part in parts:
        for title, record, keys in (
            (part.name, part.ponder.attention, part.reads),
            (f"{part.name} to {parts[0].name}", part.ponder.cross_attention, parts[0].names),
        ):
            if record is not None:
                weights = record.dense()
                queries, keys = map(padded, (part.names, keys), weights.shape[2:])
                yield AttentionTable(title, weights, queries, keys)


def padded(names: Sequence[str], nodes: int) -> list[str]:
    """Return `nodes` names: the names of tokens, and then "*" for each node without a name."""
    return [*names, *["*"] * (nodes - len(names))]


def generate(
    model: UniversalTransformer | UniversalTransformerLM,
    prompts: Sequence[list[int]],
    options: GenerationOptions,
    *,
    get_attention: bool = False,
) -> Iterator[tuple[list[int], Generation]]:
    """Yield pairs of a prompt and the generated output; the model runs batch by batch.

    Records with `get_attention` are large: there is only one at a time.
    """
    arguments = asdict(options)
    arguments["generator"] = torch.Generator().manual_seed(arguments.pop("seed"))
    for batch in in_batches(prompts, _BATCH):
        for prompt, result in zip(batch, model.generate(batch, **arguments), strict=True):
            yield prompt, model.record(prompt, result) if get_attention else result


def steps_table(label: str, tokens: Sequence[str], steps: Sequence[str]) -> str:
    """Return lines of tokens, with their numbers of steps below, that fit into the terminal."""
    widths = [max(map(len, column)) for column in zip(tokens, steps, strict=True)]
    room = max(1, get_terminal_size().columns - _LABEL_WIDTH)
    wrapper = TextWrapper(room, break_long_words=False, break_on_hyphens=False)
    rows = []
    for name, cells in ((label, tokens), ("steps", steps)):
        # Cells without spaces, of the same width in both rows, are wrapped at the same places.
        words = (x.replace(" ", "\0").ljust(n, "\0") for x, n in zip(cells, widths, strict=True))
        lines = wrapper.wrap(" ".join(words)) or [""]
        rows.append([f"{name:{_LABEL_WIDTH}}{line}" for line in lines])
    both = chain.from_iterable(zip(*rows, strict=True))
    return "\n".join(line.replace("\0", " ").rstrip() for line in both)
