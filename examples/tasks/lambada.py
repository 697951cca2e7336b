"""LAMBADA: predict the last word of a passage by a language model.

graphut train examples/tasks/lambada.py --data lambada --out runs/lambada
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass
from functools import cached_property
from itertools import chain
from math import nan
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from graphut.experiments.tasks import files
from graphut.experiments.tasks.base import Text, TextTask, hold_out, random_windows
from graphut.experiments.tasks.presets import LANGUAGE_MODEL, model_size, with_baselines
from graphut.experiments.training.learners.texts import TextLearner, TextScores, token_metrics
from graphut.models.checked_config import option
from graphut.models.outputs import LMOutput
from graphut.vocabulary import RESERVED, Vocabulary

_FILES = ("lambada_development_plain_text.txt", "lambada_test_plain_text.txt")
_ORIGIN = (
    "get the passages and novels from https://zenodo.org/records/2630551: unpack "
    "lambada-dataset.tar.gz, and name the folder"
)
Passages = list[list[str]]

# Most weights are in the embeddings; two layers have as many other weights as one step.
_SMALL = (
    LANGUAGE_MODEL
    | model_size(128, 512, 6)
    | {"dropout": 0.3, "batch_size": 16, "learning_rate": 2e-3, "epochs": 15, "patience": 3}
)


UNKNOWN = "<unk>"


def frequent_words(texts: Iterable[Iterable[str]], most: int) -> list[str]:
    """Return `<unk>`, and the words that occur at least twice, the most frequent first."""
    count = Counter(chain.from_iterable(texts))
    for reserved in (UNKNOWN, *RESERVED):  # a text may contain these as words
        del count[reserved]
    ranked = sorted(count, key=lambda word: (-count[word], word))
    return [UNKNOWN, *(word for word in ranked[:most] if count[word] > 1)]


def encode(vocabulary: Vocabulary, words: Iterable[str]) -> list[int]:
    """Return the token ids of words, with the id of `<unk>` for all unknown words."""
    return vocabulary.encode(word if word in vocabulary else UNKNOWN for word in words)


def _read_passages(folder: str | Path, held_out: int | None) -> dict[str, Passages]:
    """Return a dictionary from "train", "validation" and "test" to passages, as lists of words.

    The last word of a passage is the one to predict. There are 4869 development passages, and 5153
    test passages from other novels. If `held_out` is None, all development passages are for
    validation. Otherwise, `held_out` of them are for validation, and the others for training.
    """
    texts = (files.read_text(Path(folder, name), _ORIGIN) for name in _FILES)
    validation, test = ([line.split() for line in files.lines_of(text)] for text in texts)
    train: Passages = []
    if held_out is not None:
        train, validation = hold_out(validation, held_out, lambda words: " ".join(words).encode())
    return {"train": train, "validation": validation, "test": test}


class LambadaLearner(TextLearner):
    """Trains language models on LAMBADA, and tests them on the last word of each text."""

    most_shown = None
    example: ClassVar[str] = "passage"
    metric_meanings: ClassVar[Mapping[str, str]] = {
        "word_accuracy": "share of likeliest words that are the last word; unknown words are wrong",
        "word_nats": "mean surprisal of the last words that are in the vocabulary",
        "known": "share of the last words that are in the vocabulary",
        "nats": "mean surprisal of a word; all unknown words are one word",
        "steps": "mean steps of the nodes that predict a word",
        "word_steps": "mean steps of the nodes that predict a last word",
    }
    rank_by = ("word_log_probability",)
    target_metric = "word_accuracy"
    summary = (
        "last words: accuracy {word_accuracy:.2%}, perplexity {word_perplexity:.1f} of the "
        "{known:.2%} in the vocabulary, steps {word_steps:.2f}; all words: perplexity "
        "{perplexity:.1f}, steps {steps:.2f}"
    )

    @staticmethod
    def derived(metrics: Mapping[str, Any]) -> dict[str, Any]:
        last = TextLearner.derived({"nats": metrics["word_nats"]})
        names = ("log_probability", "perplexity")
        return {**TextLearner.derived(metrics), **{f"word_{name}": last[name] for name in names}}

    def metrics(self, scores: TextScores) -> dict[str, float]:
        [unknown] = self.vocabulary.encode([UNKNOWN])
        in_vocabulary = [score for score in scores if score.text.tokens[-1] != unknown]
        tokens = token_metrics(scores)
        return {
            "word_accuracy": sum(bool(score.correct[-1]) for score in in_vocabulary) / len(scores),
            "word_nats": fmean(float(score.nats[-1]) for score in in_vocabulary)
            if in_vocabulary
            else nan,
            "known": len(in_vocabulary) / len(scores),
            "nats": tokens["nats"],
            "steps": tokens["steps"],
            "word_steps": fmean(int(score.steps[-1]) for score in scores),
        }

    def verdict(self, output: LMOutput) -> tuple[str, str, bool | None]:
        last = [int(output.logits[-1].argmax()), int(output.labels[-1])]
        answer, correct = self.vocabulary.readable(last)
        return answer, correct, answer == correct != UNKNOWN


@dataclass(frozen=True)
class Lambada(TextTask):
    """LAMBADA: language modelling, evaluated on the last word of passages from novels.

    The task of arXiv 1606.06031 for a language model (arXiv 1807.03819, section 3.3). The published
    protocol trains on 2662 novels, validates on the development passages, and tests on passages
    from other novels. `novels` is a text file or a folder of `.txt` files; words are separated by
    white space and tokenised like the passages. An epoch consists of random windows. The vocabulary
    holds the most frequent words that occur at least twice in training.

    Without novels, the model trains on the development passages that are not held out for
    validation. The results are then not comparable with published ones.
    """

    name = "lambada"
    choices = ()  # its accuracy is that of words
    presets = with_baselines(_SMALL, {"d_hidden": 128, "max_steps": 2})
    learner = LambadaLearner

    data: str | Path = option(MISSING, f"folder of the passages; {_ORIGIN}")
    novels: str | Path | None = option(
        None,
        "file or folder of training texts, such as the published train-novels (default: train on "
        "development passages, which is not the published protocol)",
    )
    window: int = option(128, "words of a window of the novels", least=2)
    epoch_size: int = option(10_000, "windows of novels in an epoch", least=1)
    held_out: int = option(400, "validation passages, without novels", least=1)
    words: int = option(60_000, "maximum number of words in the vocabulary", least=1)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        if self.novels is None:
            return Vocabulary(frequent_words(self._passages["train"], self.words))
        # One novel at a time, because the words of all novels do not fit into memory.
        texts = (text.split() for text in self._novel_texts())
        return Vocabulary(frequent_words(texts, self.words))

    def train(self, seed: int, epoch: int) -> list[Text]:
        if self.novels is None:
            return super().train(seed, epoch)
        return random_windows(self._tokens, self.window, self.epoch_size, seed=seed, epoch=epoch)

    def load(self, part: str) -> list[Text]:
        texts = [Text(encode(self.vocabulary, words)) for words in self._passages[part]]
        [unknown] = self.vocabulary.encode([UNKNOWN])
        if part != "train" and all(text.tokens[-1] == unknown for text in texts):
            raise ValueError(
                "no last word of the passages occurs in training: the passages are tokenised and "
                "in lower case, and the novels must be too"
            )
        return texts

    @cached_property
    def _passages(self) -> dict[str, Passages]:
        return _read_passages(self.data, self.held_out if self.novels is None else None)

    @cached_property
    def _tokens(self) -> NDArray[np.int32]:
        """The token ids of all novels."""
        known = self.vocabulary
        parts = [np.array(encode(known, text.split()), np.int32) for text in self._novel_texts()]
        if not any(map(len, parts)):
            expected = "a text, or .txt files in a folder"
            raise ValueError(f"{self.novels} holds no words: expected {expected}")
        return np.concatenate(parts)

    def _novel_texts(self) -> Iterator[str]:
        assert self.novels is not None
        path = Path(self.novels)
        texts = sorted(path.rglob("*.txt")) if path.is_dir() else [path]
        return (files.read_text(text, _ORIGIN) for text in texts)
