"""The tables of all tasks except bAbI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp
from typing import Any

from graphut.experiments.results.run_table import Column, Entry, RunTable, Values
from graphut.experiments.tables import two_decimals


def _numbers(*names: str) -> Values:
    return lambda found: [found[name] for name in names]


def _steps(test_set: str, *names: str) -> Column:
    return Column("steps", test_set, _numbers(*names), two_decimals)


def _pairs(sets: Mapping[str, str]) -> list[Column]:
    """Return columns of accuracies on each set, and of steps on the last set."""
    both = _numbers("token_accuracy", "sequence_accuracy")
    columns = [Column(title, name, both) for title, name in sets.items()]
    return [*columns, _steps([*sets.values()][-1], "encoder_steps", "decoder_steps")]


def _group(name: str) -> Values:
    def values(found: Mapping[str, Any]) -> Sequence[float]:
        return [row["accuracy"] for row in found["by_group"] if row["group"] == name]

    return values


def _newer(name: str) -> Values:
    return lambda found: [found[name]] if name in found else []  # older records have none


def _data(name: str) -> dict[str, str]:
    return {"data": f"DATA/{name}"}


_BEAM = {"beam_size": 4}
_BOTH_STEPS = _steps("test", "encoder_steps", "decoder_steps")
_AGREEMENT = _data("rnn_agr_simple")
_SENTENCES = {**_AGREEMENT, "sentences": "DATA/linzen-wiki-small"}
_LAMBADA, _SCAN = _data("lambada"), _data("SCAN")
_SPLIT = ["split"]
_MULTI30K = _data("multi30k-task1")
_NO_NOVELS = "no training novels"
_SIZES = (("mixed", "test"), ("hardest", "hardest"))
# How the neural data router (2110.07732) does ListOps.
_NEAREST = {"norm": "post", "geometric_attention": True, "copy_gate": True,
            "position_signal": "none", "step_signal": "none"}  # fmt: skip
# Four times as many epochs as the preset's.
_LONG = {"epochs": 120, "ponder_weight": 0.001, "patience": 120, "precision": "bfloat16"}

# fmt: off
TASK_TABLES: Mapping[str, RunTable] = {
    "algorithmic": RunTable(
        [Entry(f"algorithmic-{name}") for name in ("copy", "reverse", "addition")],
        _pairs({"to 40": "test", "up to 400": "up-to-400", "exactly 400": "exactly-400"}),
    ),
    "lte": RunTable(
        [
            Entry("lte-program", also=_LONG, also_name="four times the updates"),
            *(Entry(f"lte-{name}")
              for name in ("control", "addition", "copy", "double", "reverse")),
        ],
        [
            *(Column(f"{title}, prefix given", name, _newer("fed_accuracy"))
              for title, name in _SIZES),
            *_pairs(dict(_SIZES)),
        ],
    ),
    "agreement": RunTable(
        [
            Entry("agreement", paths=_AGREEMENT, reason="1% of the training data is here",
                  keys=_SPLIT),
            Entry("agreement", {"split": "small"}, _SENTENCES, "agreement, small split",
                  keys=_SPLIT),
        ],
        [
            Column("all", "test", _numbers("accuracy")),
            Column("balanced", "test", _numbers("balanced_accuracy")),
            *(Column(f"{n} attractors", "test", _group(f"{n} attractors")) for n in range(1, 6)),
            Column("sentences", "sentences", _numbers("accuracy")),
            _steps("test", "steps", "verb_steps"),
        ],
    ),
    "lambada": RunTable(
        [
            Entry("lambada", paths={**_LAMBADA, "novels": "DATA/novels"}, reason=_NO_NOVELS),
            Entry("lambada", paths=_LAMBADA, label="lambada, without novels"),
        ],
        [
            Column("last words", "test", _numbers("word_accuracy")),
            Column("perplexity", "test", lambda found: [exp(found["word_nats"])], two_decimals),
            Column("known", "test", _numbers("known")),
            _steps("test", "steps", "word_steps"),
        ],
    ),
    "lambada-reading": RunTable(
        [
            Entry("lambada-reading", paths={**_LAMBADA, "passages": "DATA/passages.txt"},
                  reason=_NO_NOVELS),
            Entry("lambada-reading", paths=_LAMBADA, label="lambada-reading, without novels"),
        ],
        [
            Column("answers", "test", _numbers("accuracy")),
            Column("of the answerable", "test", _numbers("answerable_accuracy")),
            _steps("test", "steps", "last_steps"),
        ],
    ),
    "translation": RunTable(
        [
            Entry("multi30k", paths=_MULTI30K, eval_options=_BEAM, keys=["text"]),
            Entry("multi30k", {"text": "tokenized"}, _MULTI30K, "multi30k, small letters, tokens",
                  eval_options=_BEAM, baselines=False, keys=["text"]),
            Entry("wmt14", paths=_data("wmt14-en-de-small"), gpu_paths=_data("wmt14"),
                  eval_options=_BEAM, baselines=False),
        ],
        [
            Column("BLEU", "test", _numbers("bleu"), two_decimals),
            Column("± of BLEU, 95%", "test", _newer("bleu_interval"), two_decimals),
            _BOTH_STEPS,
        ],
    ),
    "char-lm": RunTable(
        [Entry("char-lm", paths=_data("input.txt"), keys=["data"])],
        [
            Column("bits a character", "test", _numbers("bits"), two_decimals),
            Column("perplexity", "test", _numbers("perplexity"), two_decimals),
            Column("characters", "test", _numbers("accuracy")),
            _steps("test", "steps"),
        ],
    ),
    "scan": RunTable(
        [
            Entry("scan", paths=_SCAN, label="scan, simple split", keys=_SPLIT),
            *(
                Entry("scan", {"split": split}, _SCAN, f"scan, {split} split", baselines=False,
                      keys=_SPLIT, also={"choose_by": "last"}, also_name="to the end")
                for split in ("length", "jump")
            ),
        ],
        _pairs({"test": "test"}),
    ),
    "listops": RunTable(
        [Entry("listops", paths=_data("listops"), also=_NEAREST,
               also_name="as a neural data router")],
        [
            Column("test", "test", _numbers("sequence_accuracy")),
            Column("official d20s", "official-d20s", _numbers("sequence_accuracy")),
            Column("official d20a", "official-d20a", _numbers("sequence_accuracy")),
            _BOTH_STEPS,
        ],
    ),
    "letters": RunTable([Entry(name) for name in ("copy", "reverse", "sort")],
                        _pairs({"test": "test"})),
}
"""Tables by their name in the page."""
# fmt: on
