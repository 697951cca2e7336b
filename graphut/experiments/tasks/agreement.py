"""Subject-verb agreement: from the words before a verb to its number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

from graphut.experiments.tasks import cache
from graphut.experiments.tasks.base import Text, TextTask
from graphut.experiments.tasks.files import DataSet, lines_of, published_checksums
from graphut.experiments.tasks.presets import LANGUAGE_MODEL, model_size, with_baselines
from graphut.experiments.tasks.splits import hold_out
from graphut.experiments.tasks.vocabulary import Words
from graphut.models.checked_config import option

SINGULAR, PLURAL = "VBZ", "VBP"
_TRAIN, _VALIDATION, _ROWS = "numpred.train", "numpred.val", "sentences"
_TESTS = {attractors: f"numpred.test.{attractors}" for attractors in range(6)}
_CHECKSUMS = published_checksums("agreement")
_SENTENCES = DataSet(
    "from https://github.com/treszkai/edinburgh-nlu-cw: clone it, and name its folder data",
    {"wiki-test.txt": _CHECKSUMS["wiki-test.txt"]},
)
_ORIGIN = (
    "from http://tallinzen.net/media/rnn_agreement/rnn_agr_simple.tar.gz: unpack it, and name "
    "the folder rnn_agr_simple"
)
# The words from which on an equal beginning means the same sentence; "this" and "it" are fewer.
_SAME_SENTENCE = 6
_FORMAT = 4
_SMALL = (
    LANGUAGE_MODEL
    | model_size(64, 256, 6)
    | {"dropout": 0.2, "learning_rate": 3e-3, "epochs": 20, "patience": 5}
)


class Prefix(NamedTuple):
    """The words of a sentence before its verb, and the verb's number."""

    words: tuple[str, ...]
    number: str

    @classmethod
    def parse(cls, line: str) -> Prefix:
        r"""Read a line of the published files.

        Examples
        --------
        >>> Prefix.parse("VBP\tthe ruins of the tower")
        Prefix(words=('the', 'ruins', 'of', 'the', 'tower'), number='VBP')
        """
        number, _, words = line.partition("\t")
        if number not in (SINGULAR, PLURAL) or not words.split():
            raise ValueError(f"expected 'VBZ' or 'VBP', a tab and words; got {line!r}")
        return cls(tuple(words.split()), number)


@dataclass(frozen=True)
class Agreement(TextTask):
    """Subject-verb agreement: language modelling, and which form of a verb is likelier.

    The task of Linzen, Dupoux and Goldberg (arXiv 1611.01368) as a language model learns it
    (arXiv 1807.03819, section 3.2). In the corpus, words beyond the 10,000 most frequent are
    replaced by their part of speech, so that `VBZ` is a rare verb in the singular and `VBP` one in
    the plural. The files keep of a sentence the words before a verb in the present tense, and
    which of the two it is; that makes the text, and is what is ranked at its end. (The paper ranks
    the verb's own two forms, which these files do not have.)

    In the split "published", `numpred.train` (9% of the corpus) is trained on and `numpred.val`
    (1%) validated on, as the publishers have it; the test is 0 to 5 attractors, nouns of the
    opposite number between subject and verb. The split "small" is for those who have not all
    files: `numpred.val` is trained on but for `held_out` texts, and the test is 1 to 5 attractors.
    Its figures are not to be compared with published ones. Texts to train on
    that are also validated on or tested are left out, and so are those to validate on that a test
    set has.

    `sentences`, as they come, with and without attractors, are a test set of their own. What is
    trained or validated on is left out of them, if it is six words or more. Of `numpred.train` and
    `numpred.test.0` no checksum is known.
    """

    name = "agreement"
    # Most weights are those of words: of the same width, two layers are as large as one step.
    presets = with_baselines(_SMALL, {"d_hidden": 64, "max_steps": 2})
    vocabulary_kind = Words

    data: str | Path = option(MISSING, f"folder of the prefixes, {_ORIGIN}")
    split: Literal["published", "small"] = option(
        "published", "what is trained on: numpred.train, or most of numpred.val"
    )
    sentences: str | Path | None = option(None, "folder with wiki-test.txt, for one more test set")
    held_out: int = option(1500, "texts to validate on in the small split, at least", least=1)
    least: int = option(2, "how often a word must come to be in the vocabulary", least=1)

    @cached_property
    def vocabulary(self) -> Words:
        """The words of training."""
        return Words(cache.unpack_json(self._parsed["words"]))

    def load(self, part: str) -> list[Text]:
        """Return the texts of a part."""
        if part != "test":
            return self._texts(part)
        return [text for name, group in self._groups.items() for text in self._texts(name, group)]

    @property
    def test_sets(self) -> Mapping[str, list[Text]]:
        """`test`, and `sentences` where their folder is named."""
        return {"test": self.test} | ({_ROWS: self._texts(_ROWS)} if self.sentences else {})

    def _texts(self, name: str, group: str = "") -> list[Text]:
        return [Text(tokens, group=group) for tokens in cache.unpack_lists(self._parsed[name])]

    @cached_property
    def _parsed(self) -> cache.Arrays:
        """The words of the vocabulary, and the token ids of each set."""
        settings = (self.name, _FORMAT, self.split, self.held_out, self.least)
        return cache.cached(self._parse, *settings, texts=self._files.values())

    def _parse(self) -> cache.Arrays:
        train, validation = self._parts
        sets = {"train": train, "validation": validation, **self._tests}
        if self.sentences is not None:
            sets[_ROWS] = self._new_sentences()
        words = Words.learn(([*p.words, p.number] for p in train), least=self.least)
        tokens = {
            name: cache.pack_lists([words.encode([*p.words, p.number]) for p in prefixes])
            for name, prefixes in sets.items()
        }
        return {"words": cache.pack_json(words.symbols), **tokens}

    def _new_sentences(self) -> list[Prefix]:
        seen = {p.words for p in chain(self._read(_VALIDATION), self._parts[0])}
        found = map(_prefix_of_row, lines_of(self._files[_ROWS])[1:])
        return [p for p in found if len(p.words) < _SAME_SENTENCE or p.words not in seen]

    @cached_property
    def _parts(self) -> tuple[list[Prefix], list[Prefix]]:
        """The prefixes to train on, and those to validate on."""
        tested = {prefix.words for part in self._tests.values() for prefix in part}
        known = [p for p in self._read(_VALIDATION) if p.words not in tested]
        if self.split == "published":
            left_out = tested | {prefix.words for prefix in known}
            return [p for p in self._read(_TRAIN) if p.words not in left_out], known
        _, held_out = hold_out(known, self.held_out, lambda p: " ".join(p.words).encode())
        chosen = {p.words for p in held_out}
        train = [p for p in known if p.words not in chosen]
        return train, [p for p in known if p.words in chosen]

    @cached_property
    def _tests(self) -> dict[str, list[Prefix]]:
        return {name: self._read(name) for name in self._groups}

    @property
    def _groups(self) -> dict[str, str]:
        """The files to test on, each with the group that it is reported as."""
        least = 0 if self.split == "published" else 1
        return {name: f"{n} attractors" for n, name in _TESTS.items() if n >= least}

    def _read(self, name: str) -> list[Prefix]:
        return [Prefix.parse(line) for line in lines_of(self._files[name])]

    @property
    def unchecked_files(self) -> Mapping[str, Path]:
        """The files that are read and have no known checksum."""
        return self._data_set.unchecked(self.data)

    @property
    def _data_set(self) -> DataSet:
        names = [*self._groups, _VALIDATION, *([_TRAIN] if self.split == "published" else [])]
        return DataSet(_ORIGIN, {name: _CHECKSUMS.get(name) for name in names})

    @cached_property
    def _files(self) -> dict[str, str]:
        data_set = self._data_set
        texts = {name: data_set.read(self.data, name) for name in data_set.checksums}
        if self.sentences is not None:
            texts[_ROWS] = _SENTENCES.read(self.sentences, "wiki-test.txt")
        return texts


def _prefix_of_row(row: str) -> Prefix:
    sentence, _, place, number, *_ = row.split("\t")
    return Prefix(tuple(sentence.split()[: int(place)]), number)
