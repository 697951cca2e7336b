"""The summary at the top of the page: our figure of each task, and those of others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from graphut.experiments.results.babi import babi_averages, babi_published
from graphut.experiments.results.published import TINY
from graphut.experiments.results.run_record import RunRecord
from graphut.experiments.results.run_table import cell_of, in_brackets
from graphut.experiments.results.task_tables import TASK_TABLES
from graphut.experiments.tables import NOT_MEASURED, code, markdown_table
from graphut.experiments.tasks.presets import BASELINES, SMALL, UNTIED

_PRESETS = (SMALL, *BASELINES, UNTIED)


@dataclass(frozen=True)
class Headline:
    """One row: the cell of a table of runs, and what others have published."""

    task: str  # the label of an entry
    table: str  # a key of `TASK_TABLES`
    column: str  # the title of a column
    published: str = ""
    differs: str = ""


_UT = "UT {}; a Neural GPU with a curriculum 1.0 / 1.0"
_POSITIONS = "no curriculum; positions{} with random gaps; scores scaled by the in-degree"
_LTE = "the sizes of the paper's models are not known"
_NOVELS = "the novels to train on were not at hand"
HEADLINES = (
    Headline("algorithmic-copy", "algorithmic", "exactly 400", _UT.format(".91 / .35"),
             _POSITIONS.format("")),
    Headline("algorithmic-reverse", "algorithmic", "exactly 400", _UT.format(".96 / .46"),
             _POSITIONS.format(" from both ends,")),
    Headline("algorithmic-addition", "algorithmic", "exactly 400", _UT.format(".34 / .02"),
             f"{_POSITIONS.format(' that restart at the plus,')}; windows"),
    Headline("lte-program", "lte", "mixed", "UT .89 / .63", _LTE),
    Headline("lte-control", "lte", "mixed", "UT 1.0 / 1.0", _LTE),
    Headline("lte-addition", "lte", "mixed", "UT 1.0 / 1.0", _LTE),
    Headline("agreement, small split", "agreement", "balanced", "UT .992 of all",
             "a tenth of the paper's training data; all our test sentences have attractors"),
    Headline("lambada, without novels", "lambada", "last words", "UT .19", _NOVELS),
    Headline("lambada-reading, without novels", "lambada-reading", "answers", "UT .5625", _NOVELS),
    Headline("multi30k", "translation", "BLEU", "DGL's example 35.41 to 36.45",
             "DGL's example counts on tokens"),
    Headline("multi30k, small letters, tokens", "translation", "BLEU",
             f"41.02 (Transformer-tiny, {TINY})", "a beam of 5; up to 8000 updates of 8192 tokens"),
    Headline("wmt14", "translation", "BLEU", "UT without halting 28.9",
             "10,000 training pairs"),
    *(
        Headline(f"scan, {split} split", "scan", "test",
                 f"recurrent networks - / {other} (1711.00350); a stack machine - / 1.0 "
                 "(2008.06662)", "our model has no part made for SCAN")
        for split, other in (("length", ".208"), ("jump", ".012"))
    ),
    Headline("listops", "listops", "official d20s", "Ordered Memory .999 (1910.13466)",
             "trained on at most 100 symbols; Ordered Memory has a stack"),
)  # fmt: skip
OTHERS = (
    *(Headline(f"lte-{name}", "lte", "mixed") for name in ("copy", "double", "reverse")),
    *(Headline(name, "letters", "test") for name in ("copy", "reverse", "sort")),
    Headline("scan, simple split", "scan", "test"),
    Headline("char-lm", "char-lm", "bits a character"),
)
"""Tasks that are in the table of presets alone."""
# The figures of the memory network, and of its port, stand in the folder `bechmarks` (so it is
# spelled) of github.com/vinhkhuc/MemN2N-babi-python.
_MEMORY = "; a memory network {} (the authors' code of 1503.08895)"
_PORT = "the memory network: {} (MemN2N-babi-python)"
_TEN = "900 questions to train on, in the paper 1000"
_MOST = "40 passes; no qa3"
_BABI = {
    ("1k", False): (_MEMORY.format("13.8"), _PORT.format("15.2"), _TEN),
    ("1k", True): (_MEMORY.format("12.4"), _PORT.format("12.9"), _TEN),
    ("10k", False): ("", "6.98, best of ten runs, with qa3 (Universal-Transformer-Pytorch)", _MOST),
    ("10k", True): ("", "about 40 (bAbI-T2T, thread 7)", _MOST),
}


def summary_table(runs: Sequence[RunRecord]) -> str:
    """Return one row a task: our model that halts, what is published, and why they differ.

    Of several variants of the preset it is the first that was measured, and the one that the
    task's entry also asks for.
    """
    rows = []
    for line in HEADLINES:
        ours = "; ".join(_ours(line, SMALL, runs)) or NOT_MEASURED
        rows.append([line.task, line.column, ours, line.published, "none known", line.differs])
    for (size, joint), (others, reproduced, differs) in _BABI.items():
        [found] = babi_averages(runs, size, (SMALL,), joint=joint)
        ours = "; ".join(found) or NOT_MEASURED
        published = f"{babi_published(runs, size, joint=joint)}{others}"
        rows.append([*_babi_title(size, joint), ours, published, reproduced, differs])
    head = ["task", "measure", "ours", "published", "reproduced by others", "what differs"]
    return markdown_table(head, rows)


def presets_table(runs: Sequence[RunRecord]) -> str:
    """Return one row for each task on which the model that halts and a baseline were measured."""
    found = [
        (line.task, line.column, [_ours(line, preset, runs) for preset in _PRESETS])
        for line in (*HEADLINES, *OTHERS)
    ]
    for size, joint in _BABI:
        averages = babi_averages(runs, size, _PRESETS, joint=joint)
        found.append((*_babi_title(size, joint), averages))
    rows = [
        [task, measure, *(cells[0] if cells else NOT_MEASURED for cells in each)]
        for task, measure, each in found
        if each[0] and any(each[1:])
    ]
    return markdown_table(["task", "measure", *map(code, _PRESETS)], rows)


def _babi_title(size: str, joint: bool) -> tuple[str, str]:
    return f"bAbI, {size}, {'all together' if joint else 'one by one'}", "average error, %"


def _ours(line: Headline, preset: str, runs: Sequence[RunRecord]) -> list[str]:
    """Return the cells of the variants of a preset that are shown, the preset itself first."""
    table = TASK_TABLES[line.table]
    [entry] = [e for e in table.entries if (e.label or e.task) == line.task]
    [column] = [column for column in table.columns if column.title == line.column]
    found = entry.variants(runs)
    others = [*chain.from_iterable(found.values())]
    measured = [variant for variant in found if variant[0] == preset and found[variant]]
    shown = measured[:1] + [v for v in measured[1:] if v == (SMALL, tuple(entry.also.items()))]
    return [
        f"{cell_of(column, found[v], others)} {in_brackets(entry.short_name(v), len(found[v]))}"
        for v in shown
    ]
