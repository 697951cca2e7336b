"""Pairs of sequences from a file of the user."""

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
from graphut.models.checked_config import option
from graphut.models.config import ModelConfig, UniversalTransformerConfig
from graphut.subwords import BYTES, Subwords, tokenizers_package
from graphut.vocabulary import Characters, Vocabulary, symbol_of

Symbols = tuple[str, ...]


class _Line(NamedTuple):
    """The symbols of a pair, and `place`, the name of its file and its line number."""

    source: Symbols
    target: Symbols
    place: str


def read_pairs(
    path: str | Path,
    source: Vocabulary,
    target: Vocabulary,
    config: UniversalTransformerConfig | None = None,
) -> list[Pair]:
    """Return the pairs of a file as token ids of a model's source and target vocabularies.

    Raise `ValueError`, with file and line, if a line is not a pair, a symbol is unknown, or a
    sequence is too long for a model with the configuration `config`.
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
    is_exact = isinstance(vocabulary, Characters)  # white space consists of symbols
    return vocabulary.read(text if is_exact else " ".join(text.split()))


@dataclass(frozen=True)
class Pairs(PairTask):
    r"""Sequence to sequence, with pairs from a user's file.

    Each line holds a source, a tab and a target. Symbols are separated by spaces; with `characters`
    each character is a symbol. With `subwords`, sources and targets are texts, whose symbols are
    subwords that are learned from the training pairs; any text can then be encoded. Empty lines are
    skipped. A target may be empty.

    The vocabularies contain the symbols of the training pairs. Without files for validation or
    test, `held_out` distinct sources are held out for each, but at most a tenth of all sources. A
    hash of the source selects them, so that pairs with equal sources stay together. Without
    `subwords`, a pair with a symbol that occurs in no other training pair is not held out.

    Raise `ValueError`, with file and line, if a line is not a pair, or if a symbol in a separate
    file does not occur in the training pairs. With `subwords`, raise `ImportError` if the package
    `tokenizers` is missing.

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

    data: str | Path = option(MISSING, "file of pairs: source, tab, target; spaces between symbols")
    validation_data: str | Path | None = option(
        None, "file of validation pairs (default: hold out a part of the pairs)"
    )
    test_data: str | Path | None = option(
        None, "file of test pairs (default: hold out a part of the pairs)"
    )
    held_out: int = option(
        1000, "pairs held out for validation, and for the test; at most a tenth each", least=1
    )
    characters: bool = option(False, "use each character as a symbol, including white space")
    subwords: int | None = option(
        None,
        "learn this number of subwords for sources and targets, including the 256 bytes",
        least=BYTES + 1,
    )

    def _check_values(self) -> None:
        self._check("characters", not (self.characters and self.subwords), "False with subwords")

    def check_files(self) -> None:
        super().check_files()
        if self.subwords:
            tokenizers_package()

    @property
    def vocabulary_kind(self) -> type[Vocabulary]:
        return Subwords if self.subwords else Characters if self.characters else Vocabulary

    @cached_property
    def source_vocabulary(self) -> Vocabulary:
        lines = self._lines["train"]
        if self.subwords:
            texts = (" ".join(text) for line in lines for text in (line.source, line.target))
            return Subwords.learn(texts, self.subwords)
        return self._vocabulary(line.source for line in lines)

    @cached_property
    def target_vocabulary(self) -> Vocabulary:
        if self.subwords:
            return self.source_vocabulary
        return self._vocabulary(line.target for line in self._lines["train"])

    def check_config(self, config: ModelConfig) -> None:
        """Raise `ValueError`, with file and line, if a line is too long for the model."""
        assert isinstance(config, UniversalTransformerConfig)  # the only model for pairs
        for part, pairs in zip(PARTS, (self._train, self.validation, self.test), strict=True):
            for line, pair in zip(self._lines[part], pairs, strict=True):
                _check_lengths(line.place, pair, config)

    def load(self, part: str) -> list[Pair]:
        source, target, pairs = self.source_vocabulary, self.target_vocabulary, []
        if isinstance(source, Subwords):
            sides = zip(*((" ".join(s), " ".join(t)) for s, t, _ in self._lines[part]), strict=True)
            return [*zip(*map(source.read_all, sides), strict=True)]
        for line in self._lines[part]:
            with reraise_for_file(line.place, ""):
                pairs.append((source.encode(line.source), target.encode(line.target)))
        return pairs

    @cached_property
    def _lines(self) -> dict[str, list[_Line]]:
        parts = {"train": self._read(self.data)}
        for part, path in zip(PARTS[1:], (self.validation_data, self.test_data), strict=True):
            if path is None:
                split = _split(parts["train"], self.held_out, self.vocabulary_kind)
                parts["train"], parts[part] = split
            else:
                parts[part] = self._read(path)
        return parts

    def _read(self, path: str | Path) -> list[_Line]:
        def split(text: str) -> Symbols:
            return tuple(map(symbol_of, text) if self.characters else text.split())

        return [_Line(split(source), split(target), place) for source, target, place in _rows(path)]

    def _vocabulary(self, sequences: Iterable[Symbols]) -> Vocabulary:
        return self.vocabulary_kind(sorted(set(chain.from_iterable(sequences))))


def _rows(path: str | Path) -> list[tuple[str, str, str]]:
    """Read a file of pairs; return the source, the target, and "FILE:LINE" of each pair."""
    rows = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        place, columns = f"{path}:{number}", line.split("\t")
        if len(columns) != 2:
            raise ValueError(
                f"{place}: expected two columns, source and target, separated by a tab; "
                f"got {len(columns)} in {line!r}"
            )
        if not columns[0].strip():
            raise ValueError(f"{place}: the source is empty")
        rows.append((columns[0], columns[1], place))
    if not rows:
        raise ValueError(f"{path} holds no pairs")
    return rows


def _split(
    lines: list[_Line], limit: int, kind: type[Vocabulary]
) -> tuple[list[_Line], list[_Line]]:
    """Return the remaining pairs, and the held-out pairs of at most `limit` different sources.

    Unless `kind` is `Subwords`, each symbol of a held-out pair also occurs in a remaining pair.
    """
    groups: dict[Symbols, list[_Line]] = {}
    for line in lines:
        groups.setdefault(line.source, []).append(line)
    remaining = _count(lines)
    number = min(limit, max(1, len(groups) // 10))
    held_sources: set[Symbols] = set()
    for source in sorted(groups, key=lambda source: sha256(" ".join(source).encode()).digest()):
        used = _count(groups[source])
        spare = kind is Subwords or all(remaining[symbol] > used[symbol] for symbol in used)
        if spare and len(held_sources) < number < len(groups):
            held_sources.add(source)
            remaining -= used
    if not held_sources:
        path = lines[0].place.rpartition(":")[0]
        remedy = "give more pairs, or separate files of validation and test pairs"
        if len(groups) == 1:
            raise ValueError(f"{path} has fewer than three distinct sources: {remedy}")
        if kind is Vocabulary:
            remedy += "; symbols are separated by spaces: pass --characters to read each letter as "
            remedy += "a symbol, or --subwords N"
        raise ValueError(
            f"no pair of {path} can be held out, because the other pairs would not contain all "
            f"symbols: {remedy}"
        )
    rest = [line for line in lines if line.source not in held_sources]
    return rest, [line for line in lines if line.source in held_sources]


def _count(lines: Iterable[_Line]) -> Counter[tuple[str, str]]:
    """Count how often each symbol occurs, separately in sources and in targets."""
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
            ends = f" (max_length={config.max_length} counts <bos> and <eos>)"
            raise ValueError(
                f"{place}: the {side} has {len(tokens)} tokens, but the model takes {most} at "
                f"most{ends if most < config.max_length else ''}: shorten it, or train a model "
                "with a larger max_length"
            )
