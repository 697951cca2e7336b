"""The tables of the tasks, but for bAbI's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp
from typing import Any

from graphut.experiments.results.family import Column, Entry, Family, Values
from graphut.experiments.results.markdown import number

_PAIR_SETS = {
    "algorithmic": {"to 40": "test", "up to 400": "up-to-400", "exactly 400": "exactly-400"},
    "lte": {"mixed": "test", "hardest": "hardest"},
    "letters": {"test": "test"},
}


def _of(*names: str) -> Values:
    return lambda found: [found[name] for name in names]


def _steps(test_set: str, *names: str) -> Column:
    return Column("steps", test_set, _of(*names), number)


def _pairs(sets: Mapping[str, str]) -> list[Column]:
    """Shares of symbols and of sequences, and steps on the last set."""
    both = _of("token_accuracy", "sequence_accuracy")
    columns = [Column(title, name, both) for title, name in sets.items()]
    return [*columns, _steps([*sets.values()][-1], "encoder_steps", "decoder_steps")]


def _group(name: str) -> Values:
    def values(found: Mapping[str, Any]) -> Sequence[float]:
        return [row["accuracy"] for row in found["by_group"] if row["group"] == name]

    return values


def _data(name: str, **others: str) -> dict[str, str]:
    return {"data": f"DATA/{name}", **others}


_BEAM = {"beam_size": 4}
_BLEU = Column("BLEU", "test", _of("bleu"), number)
_BOTH_STEPS = _steps("test", "encoder_steps", "decoder_steps")
_AGREEMENT = _data("rnn_agr_simple")
_AGREEMENT_TEST = (
    Column("all", "test", _of("accuracy")),
    Column("balanced", "test", _of("balanced_accuracy")),
    *(
        Column(f"{n} attractors", "test", _group(f"{n} attractors"))
        for n in range(1, 6)
    ),
    Column("sentences", "sentences", _of("accuracy")),
    _steps("test", "steps", "verb_steps"),
)  # fmt: skip
_NO_NOVELS = "no training novels"

FAMILIES: Mapping[str, Family] = {
    "algorithmic": Family(
        [Entry(f"algorithmic-{name}") for name in ("copy", "reverse", "addition")],
        _pairs(_PAIR_SETS["algorithmic"]),
    ),
    "lte": Family(
        [
            Entry(f"lte-{name}")
            for name in ("program", "control", "addition", "copy", "double", "reverse")
        ],
        _pairs(_PAIR_SETS["lte"]),
    ),
    "agreement": Family(
        [
            Entry("agreement", paths=_AGREEMENT, reason="1% of the training data is here"),
            Entry(
                "agreement",
                {"split": "small"},
                {**_AGREEMENT, "sentences": "DATA/linzen-wiki-small"},
                "agreement, small split",
            ),
        ],
        _AGREEMENT_TEST,
        keys=["split"],
    ),
    "lambada": Family(
        [
            Entry("lambada", paths=_data("lambada", novels="DATA/novels"), reason=_NO_NOVELS),
            Entry("lambada", paths=_data("lambada"), label="lambada, without novels"),
        ],
        [
            Column("last words", "test", _of("word_accuracy")),
            Column("perplexity", "test", lambda found: [exp(found["word_nats"])], number),
            Column("known", "test", _of("known")),
            _steps("test", "steps", "word_steps"),
        ],
    ),
    "lambada-reading": Family(
        [
            Entry(
                "lambada-reading",
                paths=_data("lambada", passages="DATA/passages.txt"),
                reason=_NO_NOVELS,
            ),
            Entry(
                "lambada-reading", paths=_data("lambada"), label="lambada-reading, without novels"
            ),
        ],
        [
            Column("answers", "test", _of("accuracy")),
            Column("of the answerable", "test", _of("answerable_accuracy")),
            _steps("test", "steps", "last_steps"),
        ],
    ),
    "translation": Family(
        [
            Entry("multi30k", paths=_data("multi30k-task1"), judging=_BEAM),
            Entry(
                "wmt14",
                paths=_data("wmt14-en-de-small"),
                gpu_paths=_data("wmt14"),
                judging=_BEAM,
                baselines=False,
            ),
        ],
        [_BLEU, _BOTH_STEPS],
    ),
    "char-lm": Family(
        [Entry("char-lm", paths=_data("input.txt"))],
        [
            Column("bits a character", "test", _of("bits"), number),
            Column("perplexity", "test", _of("perplexity"), number),
            Column("characters", "test", _of("accuracy")),
            _steps("test", "steps"),
        ],
        keys=["data"],
    ),
    "scan": Family(
        [
            Entry("scan", paths=_data("SCAN"), label="scan, simple split"),
            *(
                Entry(
                    "scan", {"split": split}, _data("SCAN"), f"scan, {split} split", baselines=False
                )
                for split in ("length", "jump")
            ),
        ],
        _pairs(_PAIR_SETS["letters"]),
        keys=["split"],
    ),
    "listops": Family(
        [Entry("listops", paths=_data("listops"))],
        [
            Column("test", "test", _of("sequence_accuracy")),
            Column("official d20s", "official-d20s", _of("sequence_accuracy")),
            Column("official d20a", "official-d20a", _of("sequence_accuracy")),
            _BOTH_STEPS,
        ],
    ),
    "letters": Family(
        [Entry(name) for name in ("copy", "reverse", "sort")],
        _pairs(_PAIR_SETS["letters"]),
    ),
}
"""By the name that stands in the page."""
