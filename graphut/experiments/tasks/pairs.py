"""One's own pairs of sequences, from a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import ClassVar, NamedTuple

from graphut.experiments.tasks.base import Pair, PairTask
from graphut.experiments.tasks.files import read_text
from graphut.experiments.tasks.vocabulary import Vocabulary


class _Line(NamedTuple):
    """One pair of a file, and where it stands."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    place: str


def read_pairs(path: str | Path, source: Vocabulary, target: Vocabulary) -> list[Pair]:
    """The pairs of a file, as token ids of two vocabularies, whose `read` says what is a text.

    Raises
    ------
    ValueError
        If a line is not a pair, or a symbol is not in its vocabulary; the message names
        the file and the line.
    """
    pairs = []
    for line in _read(path):
        with _placed(line):
            pairs.append((source.read(" ".join(line.source)), target.read(" ".join(line.target))))
    return pairs


@dataclass(frozen=True)
class Pairs(PairTask):
    """Pairs of one's own, from a text file.

    A line holds a source, a tab and a target, each of symbols between spaces. An empty line
    is passed over; a target may be empty.

    The vocabularies are those of the training pairs. Without files for them, the
    validation and the test pairs are split off: which ones, depends on a hash of the
    source, so that equal sources stay together and the split is the same every time.
    A pair with a symbol that no training pair has is not split off.

    Parameters
    ----------
    data : str or Path
        The file with the training pairs, and those to be split off.
    validation_data, test_data : str or Path, optional
        Files with the validation and the test pairs.
    held_out : int
        Distinct sources to split off, at most, for each of the two sets; never more than
        a tenth, nor less than one.

    Raises
    ------
    ValueError
        If a line is not a pair, or a symbol of a separate file is not in the training
        pairs; the message names the file and the line.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "pairs.tsv")
    ...     _ = path.write_text("one\\t1\\ntwo\\t2\\none two\\t1 2\\ntwo one\\t2 1\\n")
    ...     task = Pairs(path)
    ...     print(task.target_vocabulary, len(task.train(0, 0)), len(task.test))
    Vocabulary(1 2) 2 1
    """

    name: ClassVar[str] = "pairs"

    own_files: ClassVar[tuple[str, ...]] = ("data", "validation_data", "test_data")

    data: str | Path = field(
        metadata={"help": "file of pairs: source, tab, target; symbols between spaces"}
    )
    validation_data: str | Path | None = field(
        default=None, metadata={"help": "file of validation pairs, instead of splitting some off"}
    )
    test_data: str | Path | None = field(
        default=None, metadata={"help": "file of test pairs, instead of splitting some off"}
    )
    held_out: int = field(
        default=1000,
        metadata={"help": "pairs to split off for validation, and for test; at most a tenth each"},
    )

    def __post_init__(self) -> None:
        self._check_at_least(1, "held_out")
        self._make_absolute(*self.own_files)

    @cached_property
    def source_vocabulary(self) -> Vocabulary:
        return _vocabulary(line.source for line in self._parts[0])

    @cached_property
    def target_vocabulary(self) -> Vocabulary:
        return _vocabulary(line.target for line in self._parts[0])

    def train(self, seed: int, epoch: int) -> list[Pair]:
        """All training pairs, whatever the seed and the epoch."""
        return self._pairs[0]

    @property
    def validation(self) -> list[Pair]:
        return self._pairs[1]

    @property
    def test(self) -> list[Pair]:
        return self._pairs[2]

    @cached_property
    def _pairs(self) -> list[list[Pair]]:
        source, target = self.source_vocabulary, self.target_vocabulary
        return [_encode(part, source, target) for part in self._parts]

    @cached_property
    def _parts(self) -> tuple[list[_Line], list[_Line], list[_Line]]:
        train = _read(self.data)
        if self.validation_data is None:
            train, validation = _split(train, self.held_out)
        else:
            validation = _read(self.validation_data)
        if self.test_data is None:
            train, test = _split(train, self.held_out)
        else:
            test = _read(self.test_data)
        return train, validation, test


def _read(path: str | Path) -> list[_Line]:
    rows = enumerate(read_text(path).split("\n"), start=1)
    lines = [_parse(row, f"{path}:{number}") for number, row in rows if row.strip()]
    if not lines:
        raise ValueError(f"{path} holds no pairs")
    return lines


def _parse(row: str, place: str) -> _Line:
    columns = row.split("\t")
    if len(columns) != 2:
        raise ValueError(
            f"{place}: expected two columns, source and target, with a tab between them; "
            f"got {len(columns)} in {row!r}"
        )
    source, target = (tuple(column.split()) for column in columns)
    if not source:
        raise ValueError(f"{place}: the source is empty")
    return _Line(source, target, place)


def _split(lines: list[_Line], limit: int) -> tuple[list[_Line], list[_Line]]:
    """Split off pairs, by the hash of their source, whose symbols the others have too."""
    groups: dict[tuple[str, ...], list[_Line]] = {}
    for line in lines:
        groups.setdefault(line.source, []).append(line)
    left = _count(lines)
    wanted = min(limit, max(1, len(groups) // 10))
    taken: set[tuple[str, ...]] = set()
    for source in sorted(groups, key=_hash):
        used = _count(groups[source])
        if len(taken) < wanted and all(left[symbol] > used[symbol] for symbol in used):
            taken.add(source)
            left -= used
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


def _hash(source: tuple[str, ...]) -> bytes:
    return sha256(" ".join(source).encode()).digest()


def _vocabulary(sequences: Iterable[tuple[str, ...]]) -> Vocabulary:
    return Vocabulary(sorted({symbol for sequence in sequences for symbol in sequence}))


def _encode(lines: list[_Line], source: Vocabulary, target: Vocabulary) -> list[Pair]:
    return [_encode_line(line, source, target) for line in lines]


def _encode_line(line: _Line, source: Vocabulary, target: Vocabulary) -> Pair:
    with _placed(line):
        return source.encode(line.source), target.encode(line.target)


@contextmanager
def _placed(line: _Line) -> Iterator[None]:
    """Say in a `ValueError` where the line stands."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{line.place}: {error}") from None
