"""Parsed data as arrays, which a cache can keep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Packed:
    """Sequences of integers, one after another.

    Parameters
    ----------
    values : array of int
        All of them.
    ends : array of int
        Where each sequence ends.

    Examples
    --------
    >>> packed = Packed.of([[4, 5], [], [6]])
    >>> packed[0], len(packed), [*packed]
    ([4, 5], 3, [[4, 5], [], [6]])
    >>> [*Packed.read(packed.arrays("a"), "a")]
    [[4, 5], [], [6]]
    """

    values: NDArray[Any]
    ends: NDArray[Any]

    @classmethod
    def of(cls, sequences: Sequence[Sequence[int]]) -> Packed:
        """Those of lists."""
        lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
        return cls(np.fromiter(chain.from_iterable(sequences), np.int32), lengths.cumsum())

    @classmethod
    def joined(cls, parts: Iterable[Packed]) -> Packed:
        """Those of several, in order."""
        parts = list(parts)
        lengths = np.concatenate([part.lengths for part in parts])
        return cls(np.concatenate([part.values for part in parts]), lengths.cumsum())

    @classmethod
    def read(cls, arrays: Mapping[str, NDArray[Any]], name: str) -> Packed:
        """Those that `arrays` has made under a name."""
        return cls(arrays[name], arrays[f"{name}.ends"])

    def arrays(self, name: str) -> Arrays:
        """As arrays, under a name."""
        return {name: self.values, f"{name}.ends": self.ends}

    @property
    def lengths(self) -> NDArray[Any]:
        """How long each sequence is."""
        return np.diff(self.ends, prepend=0)

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, index: int) -> list[int]:
        start = self.ends[index - 1] if index else 0
        found: list[int] = self.values[start : self.ends[index]].tolist()
        return found

    def __iter__(self) -> Iterator[list[int]]:
        values = self.values.tolist()
        return (values[start:end] for start, end in pairwise([0, *self.ends.tolist()]))


def add_prefix(prefix: str, arrays: Arrays) -> Arrays:
    """The same under longer names: `x` becomes `prefix.x`."""
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def with_prefix(prefix: str, arrays: Arrays) -> Arrays:
    """What `add_prefix` was given, out of several.

    Examples
    --------
    >>> arrays = add_prefix("a", {"x": np.zeros(1)}) | add_prefix("b", {"x": np.ones(1)})
    >>> with_prefix("b", arrays)
    {'x': array([1.])}
    """
    start = f"{prefix}."
    return {
        name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)
    }


def pack_words(words: Iterable[str]) -> NDArray[np.uint8]:
    """Words without white space, as an array."""
    return np.frombuffer("\n".join(words).encode(), np.uint8)


def unpack_words(array: NDArray[np.uint8]) -> list[str]:
    """What `pack_words` was given.

    Examples
    --------
    >>> unpack_words(pack_words(["a", "Ü\\x00"]))
    ['a', 'Ü\\x00']
    """
    return array.tobytes().decode().split("\n")
