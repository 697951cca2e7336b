"""The passages of LAMBADA."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from graphut.experiments.tasks.files import DataSet, lines_of
from graphut.experiments.tasks.held_out import hold_out

_FILES = {
    "development": "lambada_development_plain_text.txt",
    "test": "lambada_test_plain_text.txt",
}
LAMBADA = DataSet(
    "from https://zenodo.org/records/2630551: unpack lambada-dataset.tar.gz, and name the folder",
    dict(
        zip(
            _FILES.values(),
            (
                "f5b0f1e38fcdad6a1cd3a17bee4b6932a28cd9c5f463ada970c61de0f8679f2f",
                "4ab6062b68422bf2e83653d367c9765d42404f7ec21b8b59b6518b45606aaef2",
            ),
            strict=True,
        )
    ),
)


def read_passages(folder: str | Path, part: Literal["development", "test"]) -> list[list[str]]:
    """The words of each passage (arXiv 1606.06031); the last one is to be guessed.

    Parameters
    ----------
    folder : str or Path
        With the files of plain text in it.
    part : {"development", "test"}
        4869 passages, or 5153 from other novels.

    Raises
    ------
    ValueError, FileNotFoundError
        If the file is not there, or not as it was published.
    """
    return [line.split() for line in lines_of(LAMBADA.read(folder, _FILES[part]))]


def split_development(folder: str | Path, held_out: int) -> tuple[list[list[str]], list[list[str]]]:
    """The development passages, split into those to train on and those to validate on.

    Raises
    ------
    ValueError, FileNotFoundError
        If so many cannot be held out, or as for `read_passages`.
    """
    passages = read_passages(folder, "development")
    return hold_out(passages, held_out, lambda words: " ".join(words).encode())
