"""One's own pairs of sequences, from a file."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, dataclass
from functools import cached_property
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from graphut._files import reraise_for_file
from graphut.experiments.tasks.base import PARTS, Pair, PairTask
from graphut.experiments.tasks.files import read_text
from graphut.experiments.tasks.vocabulary import Characters, Vocabulary, symbol_of
from graphut.models.checked_config import option
from graphut.models.config import ModelConfig, UniversalTransformerConfig


class _Line(NamedTuple):
    """The symbols of one pair, and where it stands."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    place: str


def read_pairs(
    path: str | Path,
    source: Vocabulary,
    target: Vocabulary,
    config: UniversalTransformerConfig | None = None,
) -> list[Pair]:
    """Return the pairs of a file as token ids, for the vocabularies of a model.

    Raise `ValueError`, which names file and line, if a line is not a pair, a symbol is not in its
    vocabulary, or a sequence is longer than a model of the configuration takes.
    """
    pairs = []
    for source_text, target_text, place in _rows(path):
        with reraise_for_file(place, ""):
            pair = _tokens(source, source_text), _tokens(target, target_text)
        if config is not None:
            _check_lengths(place, pair, config)
        pairs.append(pair)
    return pairs


def _tokens(vocabulary: Vocabulary, text: str) -> list[int]:
    """Return token ids; white space counts only where it is a symbol."""
    exact = isinstance(vocabulary, Characters)
    return vocabulary.read(text if exact else " ".join(text.split()))


@dataclass(frozen=True)
class Pairs(PairTask):
    r"""Pairs of one's own, from a text file.

    A line holds a source, a tab and a target, each of symbols between spaces, or of characters if
    `characters` is set. An empty line is passed over; a target may be empty.

    The vocabularies are those of the training pairs. Without files for them, the validation and
    the test pairs are split off: `held_out` distinct sources for each, but at most a tenth, and at
    least one. Which ones, depends on a hash of the source, so that equal sources stay together and
    the split is the same every time. A pair with a symbol that no training pair has is not split
    off.

    Raise `ValueError`, which names file and line, if a line is not a pair, or a symbol of a
    separate file is not in the training pairs.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "pairs.tsv")
    ...     _ = path.write_text("one\t1\ntwo\t2\none two\t1 2\ntwo one\t2 1\n")
    ...     task = Pairs(path)
    ...     print(task.target_vocabulary, len(task.train(0, 0)), len(task.test))
    Vocabulary(1 2) 2 1
    """

    name = "pairs"
    own_files = ("data", "validation_data", "test_data")

    data: str | Path = option(
        MISSING, "file of pairs: source, tab, target, which may be empty; symbols between spaces"
    )
    validation_data: str | Path | None = option(
        None, "file of validation pairs, instead of splitting some off"
    )
    test_data: str | Path | None = option(None, "file of test pairs, instead of splitting some off")
    held_out: int = option(
        1000, "pairs to split off for validation, and for test; at most a tenth each", least=1
    )
    characters: bool = option(
        False, "take each character as a symbol, white space too, in place of words between spaces"
    )

    @property
    def vocabulary_kind(self) -> type[Vocabulary]:
        """The class of the vocabularies."""
        return Characters if self.characters else Vocabulary

    @cached_property
    def source_vocabulary(self) -> Vocabulary:
        """The symbols of the training sources."""
        return self._vocabulary(line.source for line in self._lines["train"])

    @cached_property
    def target_vocabulary(self) -> Vocabulary:
        """The symbols of the training targets."""
        return self._vocabulary(line.target for line in self._lines["train"])

    def check_lengths(self, config: ModelConfig) -> None:
        """Raise `ValueError`, with file and line, if a model takes no sequence as long."""
        assert isinstance(config, UniversalTransformerConfig)  # models of no other kind learn pairs
        for line in chain.from_iterable(self._lines.values()):
            _check_lengths(line.place, (line.source, line.target), config)

    def load(self, part: str) -> list[Pair]:
        """Return the pairs of a part as token ids."""
        source, target, pairs = self.source_vocabulary, self.target_vocabulary, []
        for line in self._lines[part]:
            with reraise_for_file(line.place, ""):
                pairs.append((source.encode(line.source), target.encode(line.target)))
        return pairs

    @cached_property
    def _lines(self) -> dict[str, list[_Line]]:
        parts = {"train": self._read(self.data)}
        _warn_of_words(parts["train"], self.data)
        for part, path in zip(PARTS[1:], (self.validation_data, self.test_data), strict=True):
            if path is None:
                parts["train"], parts[part] = _split(parts["train"], self.held_out)
            else:
                parts[part] = self._read(path)
        return parts

    def _read(self, path: str | Path) -> list[_Line]:
        def split(text: str) -> tuple[str, ...]:
            return tuple(map(symbol_of, text) if self.characters else text.split())

        return [_Line(split(source), split(target), place) for source, target, place in _rows(path)]

    def _vocabulary(self, sequences: Iterable[tuple[str, ...]]) -> Vocabulary:
        symbols = {symbol for sequence in sequences for symbol in sequence}
        return self.vocabulary_kind(sorted(symbols))


def _rows(path: str | Path) -> list[tuple[str, str, str]]:
    """Return source and target of each pair as texts, and where it stands."""
    lines = enumerate(read_text(path).split("\n"), start=1)
    rows = [_parse(line, f"{path}:{number}") for number, line in lines if line.strip()]
    if not rows:
        raise ValueError(f"{path} holds no pairs")
    return rows


def _parse(line: str, place: str) -> tuple[str, str, str]:
    columns = line.split("\t")
    if len(columns) != 2:
        raise ValueError(
            f"{place}: expected two columns, source and target, with a tab between them; "
            f"got {len(columns)} in {line!r}"
        )
    if not columns[0].strip():
        raise ValueError(f"{place}: the source is empty")
    return columns[0], columns[1], place


def _warn_of_words(lines: Sequence[_Line], path: str | Path) -> None:
    """Warn if whole words may have been taken for symbols: most of them come only once."""
    count = Counter(symbol for line in lines for symbol in line.source)
    once = [symbol for symbol in count if count[symbol] == 1 and len(symbol) > 1]
    if 2 * len(once) > count.total():
        warnings.warn(
            f"most symbols of the sources in {path} come only once, such as {once[0]!r}: put "
            "spaces between symbols, or let --characters take each character as one",
            stacklevel=2,
        )


def _split(lines: list[_Line], limit: int) -> tuple[list[_Line], list[_Line]]:
    """Split off pairs, by the hash of their source, whose symbols the others have too."""
    groups: dict[tuple[str, ...], list[_Line]] = {}
    for line in lines:
        groups.setdefault(line.source, []).append(line)
    remaining = _count(lines)
    wanted = min(limit, max(1, len(groups) // 10))
    taken: set[tuple[str, ...]] = set()
    for source in sorted(groups, key=lambda source: sha256(" ".join(source).encode()).digest()):
        used = _count(groups[source])
        if len(taken) < wanted and all(remaining[symbol] > used[symbol] for symbol in used):
            taken.add(source)
            remaining -= used
    if not taken:
        raise ValueError(
            f"no pair of {lines[0].place.rpartition(':')[0]} can be split off so that the others "
            "have all its symbols: give more pairs, or validation and test pairs in files of "
            "their own"
        )
    rest = [line for line in lines if line.source not in taken]
    return rest, [line for line in lines if line.source in taken]


def _count(lines: Iterable[_Line]) -> Counter[tuple[str, str]]:
    return Counter(
        (side, symbol)
        for line in lines
        for side, symbols in (("source", line.source), ("target", line.target))
        for symbol in symbols
    )


def _check_lengths(
    place: str, pair: tuple[Sequence[object], Sequence[object]], config: UniversalTransformerConfig
) -> None:
    for side, tokens, most in zip(("source", "target"), pair, config.longest_pair, strict=True):
        if len(tokens) > most:
            raise ValueError(
                f"{place}: the {side} has {len(tokens)} tokens, but the model takes {most} at "
                "most: shorten it, or train a model with a larger max_length"
            )
