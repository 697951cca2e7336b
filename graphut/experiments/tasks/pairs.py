"""Pairs of sequences from a file of the user."""

from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from graphut._files import reraise_for_file
from graphut.experiments.tasks.base import PARTS, Pair, PairTask, hold_out
from graphut.experiments.tasks.files import read_text
from graphut.models.checked_config import option
from graphut.subwords import BYTES, Subwords
from graphut.vocabulary import Characters, Vocabulary


class _Line(NamedTuple):
    """The texts of a pair, and `place`, the name of its file and its line number."""

    source: str
    target: str
    place: str


def read_pairs(path: str | Path, source: Vocabulary, target: Vocabulary) -> list[Pair]:
    """Return the pairs of a file as token ids of a model's source and target vocabularies.

    Raise `ValueError`, with file and line, if a line is not a pair, or a symbol is unknown.
    """
    return _encode(_read_lines(path), source, target)


@dataclass(frozen=True)
class Pairs(PairTask):
    r"""Sequence to sequence, with pairs from a user's file.

    Each line holds a source, a tab and a target. Symbols are separated by spaces; with `characters`
    each character is a symbol. With `subwords`, sources and targets are texts, whose symbols are
    subwords that are learned from the training pairs; any text can then be encoded. Empty lines are
    skipped. A target may be empty.

    The vocabularies contain the symbols of the file `data`. Without files for validation or test,
    `held_out` distinct sources are held out for each, but at most a tenth of all sources. A hash of
    the source selects them, so that pairs with equal sources stay together.

    Raise `ValueError`, with file and line, if a line is not a pair, or if a symbol in a separate
    file does not occur in the file `data`. With `subwords`, raise `ImportError` if the package
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

    @cached_property
    def source_vocabulary(self) -> Vocabulary:
        return self._vocabulary(0)

    @cached_property
    def target_vocabulary(self) -> Vocabulary:
        return self.source_vocabulary if self.subwords else self._vocabulary(1)

    def _vocabulary(self, side: int) -> Vocabulary:
        """Return the vocabulary of sources (0) or targets (1), or subwords of training pairs."""
        if self.subwords:
            texts = chain.from_iterable(line[:2] for line in self._lines["train"])
            return Subwords.learn(texts, self.subwords)
        lines = [line[side] for line in self._data]
        if self.characters:
            return Characters.of("".join(lines))
        return Vocabulary(sorted({*chain.from_iterable(map(str.split, lines))}))

    @property
    def description(self) -> str:
        train, validation, test = (len(self._lines[part]) for part in PARTS)
        few = "; warning: fewer than 1,000 are mostly learned by heart" if train < 1000 else ""
        return f"read {train}/{validation}/{test} pairs for training/validation/test{few}"

    def load(self, part: str) -> list[Pair]:
        return _encode(self._lines[part], self.source_vocabulary, self.target_vocabulary)

    @cached_property
    def _data(self) -> list[_Line]:
        return _read_lines(self.data)

    @cached_property
    def _lines(self) -> dict[str, list[_Line]]:
        parts = {"train": self._data}
        for part, path in zip(PARTS[1:], (self.validation_data, self.test_data), strict=True):
            if path is None:
                parts["train"], parts[part] = _split(
                    parts["train"], self.held_out, not (self.characters or self.subwords)
                )
            else:
                parts[part] = _read_lines(path)
        return parts


def _read_lines(path: str | Path) -> list[_Line]:
    """Read a file of pairs."""
    lines = []
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
        lines.append(_Line(columns[0], columns[1], place))
    if not lines:
        raise ValueError(f"{path} holds no pairs")
    return lines


def _encode(lines: Sequence[_Line], source: Vocabulary, target: Vocabulary) -> list[Pair]:
    """Return the token ids of pairs; raise `ValueError`, with file and line, for a new symbol."""
    if isinstance(source, Subwords):  # any text can be encoded
        sides = ([line[side] for line in lines] for side in (0, 1))
        return [*zip(*map(source.read_all, sides), strict=True)]
    pairs = []
    for line in lines:
        with reraise_for_file(line.place, ""):
            pairs.append((_read(source, line.source), _read(target, line.target)))
    return pairs


def _read(vocabulary: Vocabulary, text: str) -> list[int]:
    """Return the token ids of a text; unlike `Vocabulary.read`, do not spell unknown words."""
    return vocabulary.encode(text if isinstance(vocabulary, Characters) else text.split())


def _split(lines: Sequence[_Line], limit: int, is_split: bool) -> tuple[list[_Line], list[_Line]]:
    """Return the remaining pairs, and the held-out pairs of at most `limit` different sources.

    With `is_split`, symbols are separated by spaces.
    """
    sources = {tuple(line.source.split()) for line in lines}
    path = lines[0].place.rpartition(":")[0]
    if is_split and max(map(len, sources)) == 1:
        raise ValueError(
            f"no pair of {path} can be held out, because each source is a symbol of its own: "
            "separate symbols by spaces, or pass --characters or --subwords N"
        )
    if len(sources) < 2:
        raise ValueError(
            f"{path} has fewer than three distinct sources: give more pairs, or separate files of "
            "validation and test pairs"
        )
    number = min(limit, max(1, len(sources) // 10))
    held_out = {*hold_out(sources, number, lambda source: " ".join(source).encode())[1]}
    parts: tuple[list[_Line], list[_Line]] = [], []
    for line in lines:
        parts[tuple(line.source.split()) in held_out].append(line)
    return parts
