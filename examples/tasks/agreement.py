"""Subject-verb agreement: predict from the words before a verb whether it is singular or plural.

graphut train examples/tasks/agreement.py --data rnn_agr_simple --split small --out runs/verbs
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, Literal, NamedTuple

from graphut.experiments.tasks.base import Text, TextTask, hold_out
from graphut.experiments.tasks.files import lines_of, read_text
from graphut.experiments.tasks.presets import LANGUAGE_MODEL, model_size, with_baselines
from graphut.experiments.training.learners.texts import TextLearner, TextScores, token_metrics
from graphut.models.checked_config import option
from graphut.models.outputs import LMOutput
from graphut.vocabulary import RESERVED, Vocabulary

SINGULAR, PLURAL = "VBZ", "VBP"
_TRAIN, _VALIDATION, _ROWS = "numpred.train", "numpred.val", "sentences"
_SENTENCES = (
    "get it from https://github.com/treszkai/edinburgh-nlu-cw: clone it, and name its folder data"
)
_ORIGIN = (
    "get the data from http://tallinzen.net/media/rnn_agreement/rnn_agr_simple.tar.gz: unpack it, "
    "and name the folder rnn_agr_simple"
)
_SAME_SENTENCE = 6  # equal prefixes of at least this many words come from the same sentence
_SMALL = (
    LANGUAGE_MODEL
    | model_size(64, 256, 6)
    | {"dropout": 0.2, "learning_rate": 3e-3, "epochs": 20, "patience": 5}
)


UNKNOWN = "<unk>"


def frequent_words(texts: Iterable[Iterable[str]]) -> list[str]:
    """Return `<unk>`, and the words that occur at least twice, the most frequent first."""
    count = Counter(chain.from_iterable(texts))
    for reserved in (UNKNOWN, *RESERVED):  # a text may contain these as words
        del count[reserved]
    ranked = sorted(count, key=lambda word: (-count[word], word))
    return [UNKNOWN, *(word for word in ranked if count[word] > 1)]


def encode(vocabulary: Vocabulary, words: Iterable[str]) -> list[int]:
    """Return the token ids of words, with the id of `<unk>` for all unknown words."""
    return vocabulary.encode(word if word in vocabulary else UNKNOWN for word in words)


class Prefix(NamedTuple):
    """The words of a sentence before its verb, and whether the verb is singular or plural."""

    words: tuple[str, ...]
    number: str

    @classmethod
    def parse(cls, line: str) -> Prefix:
        r"""Parse a line of the published files: `VBZ` or `VBP`, a tab, and words.

        Examples
        --------
        >>> Prefix.parse("VBP\tthe ruins of the tower")
        Prefix(words=('the', 'ruins', 'of', 'the', 'tower'), number='VBP')
        """
        number, _, words = line.partition("\t")
        if number not in (SINGULAR, PLURAL) or not words.split():
            raise ValueError(f"expected 'VBZ' or 'VBP', a tab and words; got {line!r}")
        return cls(tuple(words.split()), number)


class AgreementLearner(TextLearner):
    """Trains language models; tests if they prefer the verb form that agrees with the subject."""

    most_shown = None
    example: ClassVar[str] = "sentence"
    metric_meanings: ClassVar[Mapping[str, str]] = {
        "accuracy": "share of verbs whose correct form is likelier than the wrong one",
        "balanced_accuracy": "mean of the accuracies for verbs in the singular and in the plural",
        "nats": "mean surprisal of a token, verbs included",
        "steps": "mean steps of the nodes that predict a token",
        "verb_steps": "mean steps of the nodes that predict a verb",
    }
    rank_by = ("accuracy", "log_probability")
    summary = (
        "verb accuracy {accuracy:.2%} ({balanced_accuracy:.2%} balanced), steps {steps:.2f}, "
        "{verb_steps:.2f} before a verb"
    )

    @property
    def candidates(self) -> Sequence[int]:
        """Two token ids: of "VBZ" (a verb in the singular) and of "VBP" (in the plural)."""
        return self.vocabulary.encode([SINGULAR, PLURAL])

    def metrics(self, scores: TextScores) -> dict[str, float]:
        forms = self.candidates
        correct: dict[int, list[bool]] = {}
        for score in scores:
            form = forms.index(score.text.tokens[-1])
            likelier = bool(score.candidates[form] > score.candidates[1 - form])  # a tie is wrong
            correct.setdefault(form, []).append(likelier)
        tokens = token_metrics(scores)
        return {
            "accuracy": fmean(chain.from_iterable(correct.values())),
            "balanced_accuracy": fmean(map(fmean, correct.values())),
            "nats": tokens["nats"],
            "steps": tokens["steps"],
            "verb_steps": fmean(int(score.steps[-1]) for score in scores),
        }

    def verdict(self, output: LMOutput) -> tuple[str, str, bool | None]:
        forms, correct = [*self.candidates], int(output.labels[-1])
        logits = output.logits[-1, forms]
        likelier = forms[int(logits.argmax())]
        answer, correct_form = self.vocabulary.readable([likelier, correct])
        return answer, correct_form, likelier == correct and bool(logits[0] != logits[1])


@dataclass(frozen=True)
class Agreement(TextTask):
    """Subject-verb agreement: language modelling, evaluated on the number of a verb.

    The task of Linzen, Dupoux and Goldberg (arXiv 1611.01368) for a language model (arXiv
    1807.03819, section 3.2). The corpus replaces words beyond the 10,000 most frequent by their
    part of speech: `VBZ` is a rare verb in the singular and `VBP` one in the plural. The files
    contain, for each sentence, the words before a verb in the present tense and one of these two
    tokens. Words and token form a text; the model predicts which of the two tokens ends the text.
    (In the paper it chooses between the two forms of the verb, which the files do not contain.)

    The split "published" uses the published training set `numpred.train` (9% of the corpus) and
    validation set `numpred.val` (1%), and tests on 0 to 5 attractors: nouns of the opposite number
    between subject and verb. The split "small" needs fewer files: it holds out `held_out` texts of
    `numpred.val` for validation, trains on the rest, and tests on 1 to 5 attractors. Its results
    are not comparable with published ones. Texts of a test set are removed from training and
    validation, and texts of the validation set from training.

    The folder `sentences` adds a test set of unselected sentences. A sentence with six or more
    words before the verb is left out if these words occur in training or validation.
    """

    name = "agreement"
    # Most weights are in the embeddings; two layers have as many other weights as one step.
    presets = with_baselines(_SMALL, {"d_hidden": 64, "max_steps": 2})
    learner = AgreementLearner

    data: str | Path = option(MISSING, f"folder of the prefixes; {_ORIGIN}")
    split: Literal["published", "small"] = option(
        "published", "training set: numpred.train, or most of numpred.val"
    )
    sentences: str | Path | None = option(None, "folder with wiki-test.txt, another test set")
    held_out: int = option(1500, "minimum validation texts in the small split", least=1)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary(self._encoded["words"])

    def load(self, part: str) -> list[Text]:
        files = self._groups if part == "test" else {part: ""}
        return [Text(x, group=group) for name, group in files.items() for x in self._encoded[name]]

    @property
    def test_sets(self) -> Sequence[str]:
        return ("test", _ROWS) if self.sentences else ("test",)

    @cached_property
    def _encoded(self) -> dict[str, Any]:
        sets = self._prefixes()
        vocabulary = Vocabulary(frequent_words([*p.words, p.number] for p in sets["train"]))
        tokens = {
            name: [encode(vocabulary, [*p.words, p.number]) for p in prefixes]
            for name, prefixes in sets.items()
        }
        return {"words": vocabulary.symbols, **tokens}

    def _prefixes(self) -> dict[str, list[Prefix]]:
        """Return a dictionary from "train", "validation" and each test set to sentence prefixes."""
        tests = {name: self._read(name) for name in self._groups}
        tested = {prefix.words for part in tests.values() for prefix in part}
        published = self._read(_VALIDATION)
        untested = [p for p in published if p.words not in tested]
        if self.split == "published":
            validation, candidates = untested, self._read(_TRAIN)
        else:
            _, held_out = hold_out(untested, self.held_out, lambda p: " ".join(p.words).encode())
            chosen = {p.words for p in held_out}
            validation, candidates = [p for p in untested if p.words in chosen], untested
        left_out = tested | {prefix.words for prefix in validation}
        train = [p for p in candidates if p.words not in left_out]
        sets = {"train": train, "validation": validation, **tests}
        if self.sentences is not None:
            seen = {p.words for p in [*published, *train]}
            rows = (row.split("\t") for row in lines_of(self._files[_ROWS])[1:])
            prefixes = (Prefix(tuple(r[0].split()[: int(r[2])]), r[3]) for r in rows)
            sets[_ROWS] = [
                p for p in prefixes if len(p.words) < _SAME_SENTENCE or p.words not in seen
            ]
        return sets

    @property
    def _groups(self) -> dict[str, str]:
        """A dictionary from test files to group names for results, such as "3 attractors"."""
        least = 0 if self.split == "published" else 1
        return {f"numpred.test.{n}": f"{n} attractors" for n in range(least, 6)}

    def _read(self, name: str) -> list[Prefix]:
        return [Prefix.parse(line) for line in lines_of(self._files[name])]

    @cached_property
    def _files(self) -> dict[str, str]:
        names = [*self._groups, _VALIDATION, *([_TRAIN] if self.split == "published" else [])]
        texts = {name: read_text(Path(self.data, name), _ORIGIN) for name in names}
        if self.sentences is not None:
            texts[_ROWS] = read_text(Path(self.sentences, "wiki-test.txt"), _SENTENCES)
        return texts
