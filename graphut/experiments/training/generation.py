"""Texts that a model generates, and tables of their tokens with the steps of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shutil import get_terminal_size
from typing import NamedTuple

from torch import Tensor

from graphut.experiments.generation_options import GenerationOptions
from graphut.experiments.tasks import Vocabulary
from graphut.experiments.tasks.base import in_batches
from graphut.models import UniversalTransformer, UniversalTransformerLM
from graphut.models.outputs import Generation
from graphut.nn import Ponder
from graphut.sentences import BOS, EOS

_BATCH = 100
_LABEL_WIDTH = 8  # columns


class GeneratedText(NamedTuple):
    """The answer to a text; and both of them, with the steps of each token or sentence."""

    text: str
    with_steps: str


class PonderedPart(NamedTuple):
    """One part of a model, as it pondered over one text."""

    name: str  # "encoder" or "decoder"
    names: list[str]  # of its tokens, or of its sentences; of a decoder, the tokens that it writes
    reads: list[str]  # the tokens that it is fed: of a decoder, each is the one written before
    ponder: Ponder  # with the attention weights


def written_tokens(result: Generation) -> list[int]:
    """Return the tokens that were written, `<eos>` too if it came."""
    return [*result.tokens, EOS][: len(result.steps)]


def decoder_part(vocabulary: Vocabulary, tokens: Sequence[int], ponder: Ponder) -> PonderedPart:
    """Return a decoder that writes these tokens, and is fed those before each of them."""
    written, fed = (vocabulary.readable(each) for each in (tokens, [BOS, *tokens[:-1]]))
    return PonderedPart("decoder", written, fed, ponder)


class AttentionTable(NamedTuple):
    """The attention weights of a part of a model, by step and head, with their edges."""

    title: str
    weights: Tensor  # (steps, heads, queries, keys)
    queries: list[str]
    keys: list[str]


def attention_tables(parts: Sequence[PonderedPart]) -> Iterator[AttentionTable]:
    """Yield the attention of each part, and the cross-attention to the first one."""
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
    """Return the names of tokens, and stars for nodes that are not tokens."""
    return [*names, *["*"] * (nodes - len(names))]


def generate(
    model: UniversalTransformer | UniversalTransformerLM,
    prompts: Sequence[list[int]],
    options: GenerationOptions,
) -> Iterator[tuple[list[int], Generation]]:
    """Yield each prompt and what a model generates for it, as soon as its batch is done."""
    arguments = options.for_model()
    for batch in in_batches(prompts, _BATCH):
        yield from zip(batch, model.generate(batch, **arguments), strict=True)


def steps_table(label: str, tokens: Sequence[str], steps: Sequence[int]) -> str:
    """Return tokens above their steps, in rows as wide as the terminal.

    Examples
    --------
    >>> print(steps_table("output", ["a", "be", "<eos>"], [2, 12, 1]))
    output  a be <eos>
    steps   2 12 1
    """
    columns = list(zip(tokens, map(str, steps), strict=True))
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for part in _rows(widths, get_terminal_size().columns - _LABEL_WIDTH):
        for row, name in enumerate((label, "steps")):
            cells = [f"{columns[i][row]:{widths[i]}}" for i in part]
            lines.append(f"{name:{_LABEL_WIDTH}}{' '.join(cells)}".rstrip())
    return "\n".join(lines)


def _rows(widths: Sequence[int], available: int) -> Iterator[range]:
    """Yield ranges of columns that fit beside each other, each of one column at least."""
    start = used = 0
    for index, width in enumerate(widths):
        if index > start and used + width > available:
            yield range(start, index)
            start, used = index, 0
        used += width + 1
    yield range(start, len(widths))


def steps_list(texts: Sequence[str], steps: Sequence[int]) -> str:
    """Return a line for each text, with its steps before it.

    Examples
    --------
    >>> print(steps_list(["Mary went home.", "Where is Mary?"], [1, 12]))
    steps
         1  Mary went home.
        12  Where is Mary?
    """
    lines = [f"{number:6}  {text}" for text, number in zip(texts, steps, strict=True)]
    return "\n".join(["steps", *lines])
