"""Subwords: byte-pair encodings learned from text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from graphut._tokens import BOS, EOS
from graphut.vocabulary import Vocabulary

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from tokenizers.models import BPE

BYTES = 256


def needed_package(name: str, need: str) -> ModuleType:
    """Import a package; if it is missing, raise an error with `need` and an install command."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"{need} {name} ({error}): pip install {name}") from None


tokenizers_package = partial(needed_package, "tokenizers", "subwords need")


@dataclass(frozen=True, repr=False)
class Subwords(Vocabulary):
    """A vocabulary of subwords: a byte-pair encoding (arXiv 1508.07909, section 3.2) on bytes.

    The symbols are the 256 bytes and the results of the merges, so that any text can be encoded.
    `write` restores the text in Unicode's normal form C, with single spaces between words.

    `merges` has the two symbols joined by each merge; earlier merges are applied first. `tokenized`
    says whether the texts are tokenised, with spaces between words and punctuation. Raise
    `ImportError` when a text is read or written, if the package `tokenizers` is not installed.

    Examples
    --------
    >>> subwords = Subwords.learn(["a bike", "two bikes", "biking", "a bike"], size=261)
    >>> subwords.readable(subwords.read("a  big bike"))
    ['▁a', '▁bi', 'g', '▁bike']
    >>> subwords.write(subwords.read("a  big bike"))
    'a big bike'
    """

    merges: tuple[tuple[str, str], ...]
    tokenized: bool

    def __init__(self, merges: Iterable[tuple[str, str]], tokenized: bool = False) -> None:
        object.__setattr__(self, "merges", tuple(merges))
        object.__setattr__(self, "tokenized", tokenized)
        # In order and once each, because two merges may have the same result.
        super().__init__(dict.fromkeys([*_alphabet(), *map("".join, self.merges)]))

    @classmethod
    def learn(cls, texts: Iterable[str], size: int, tokenized: bool = False) -> Subwords:
        """Learn subwords: merge the most frequent pair of symbols until there are `size` symbols.

        Stop earlier if no pair occurs twice. Raise `ValueError` if the size allows no merge.
        """
        if size <= BYTES:
            raise ValueError(f"subwords must be more than the {BYTES} bytes; got {size}")
        package = tokenizers_package()
        trainer = package.trainers.BpeTrainer(
            vocab_size=size, min_frequency=2, show_progress=False, initial_alphabet=_alphabet()
        )
        tokenizer = _tokenizer(package.models.BPE())
        tokenizer.train_from_iterator(texts, trainer)
        return cls(map(tuple, json.loads(tokenizer.to_str())["model"]["merges"]), tokenized)

    def read(self, text: str) -> list[int]:
        """Return the token ids of the subwords of a text; any text can be read."""
        return self.read_all([text])[0]

    def read_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text; much faster than `read` for each text."""
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(texts)]

    def write(self, tokens: Sequence[int]) -> str:
        """Return the text of token ids on one line; invalid bytes become U+FFFD."""
        return " ".join(self._text([token for token in tokens if token not in (BOS, EOS)]).split())

    def readable(self, tokens: Sequence[int]) -> list[str]:
        """Return the text of each subword, with `▁` for spaces, or its symbol if not printable."""
        return [
            text.replace(" ", "▁") if text.isprintable() and text not in ("", "\ufffd") else symbol
            for text, symbol in ((self._text([t]), *self.decode([t])) for t in tokens)
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the merges, each with a space between its two symbols."""
        merges = [" ".join(merge) for merge in self.merges]
        return {"kind": "Subwords", "merges": merges, "tokenized": self.tokenized}

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> Subwords:
        """Return subwords from the result of `to_json`."""
        merges = [(a, b) for a, _, b in (line.partition(" ") for line in state["merges"])]
        return cls(merges, state["tokenized"])

    def _text(self, tokens: Sequence[int]) -> str:
        return tokenizers_package().decoders.ByteLevel().decode(self.decode(tokens))

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        ids = {symbol: token for token, symbol in enumerate(self.decode(range(len(self))))}
        return _tokenizer(tokenizers_package().models.BPE(vocab=ids, merges=list(self.merges)))


def _tokenizer(model: BPE) -> Tokenizer:
    package = tokenizers_package()
    normalizers, regex = package.normalizers, package.Regex
    tokenizer: Tokenizer = package.Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(regex(r"\s+"), " "), normalizers.Strip()]
    )
    # With the prefix, a word has the same subwords at the start of a text and after a space.
    tokenizer.pre_tokenizer = package.pre_tokenizers.ByteLevel(add_prefix_space=True)
    return tokenizer


def _alphabet() -> list[str]:
    """Return the 256 visible characters that represent the bytes, as in GPT-2's encoder."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return sorted(map(chr, [*visible, *range(256, 2 * 256 - len(visible))]))
