"""The summary at the top of the page: our figure of each task, and those of others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphut.experiments.results.babi import babi_summary
from graphut.experiments.results.published import BABI_ERROR, TINY
from graphut.experiments.results.run_record import RunRecord
from graphut.experiments.results.run_table import in_words, variant_name
from graphut.experiments.results.task_tables import TASK_TABLES
from graphut.experiments.tables import markdown_table
from graphut.experiments.tasks.presets import SMALL


@dataclass(frozen=True)
class Headline:
    """One row: the cell of a table of runs, and what others have published."""

    task: str  # the label of an entry
    table: str  # a key of `TASK_TABLES`
    column: str  # the title of a column
    published: str
    differs: str
    reproduced: str = "none known"  # by others than the authors


_UT = "1.0 / - (Neural GPU, with a curriculum); UT {}"
_POSITIONS = "no curriculum; random positions with gaps"
_LTE = "the paper's sizes are not known, and its characters have the true prefix given"
_NOVELS = "the novels to train on were not at hand"
HEADLINES = (
    Headline("algorithmic-copy", "algorithmic", "exactly 400", _UT.format(".91 / .35"), _POSITIONS),
    Headline("algorithmic-reverse", "algorithmic", "exactly 400", _UT.format(".96 / .46"),
             _POSITIONS),
    Headline("algorithmic-addition", "algorithmic", "exactly 400", _UT.format(".34 / .02"),
             f"{_POSITIONS}, that restart at the plus"),
    Headline("lte-program", "lte", "mixed", "UT .89 / .63", _LTE),
    Headline("lte-control", "lte", "mixed", "UT 1.0 / 1.0", _LTE),
    Headline("lte-addition", "lte", "mixed", "UT 1.0 / 1.0", _LTE),
    Headline("agreement, small split", "agreement", "all", "UT .992",
             "trained on 1% of the corpus, in the paper on 9%"),
    Headline("lambada, without novels", "lambada", "last words", "UT .19", _NOVELS),
    Headline("lambada-reading, without novels", "lambada-reading", "answers", "UT .5625", _NOVELS),
    Headline("multi30k", "translation", "BLEU", "none known on text as it was written",
             "DGL's example counts on tokens", "35.41 to 36.45 (DGL's example)"),
    Headline("multi30k, small letters, tokens", "translation", "BLEU",
             f"41.02 (Transformer-tiny, {TINY})", "a beam of 5; up to 8000 updates of 8192 tokens"),
    Headline("wmt14", "translation", "BLEU", "UT 28.9", "10,000 training pairs"),
    *(
        Headline(f"scan, {split} split", "scan", "test", "- / 1.0 (a stack machine, 2008.06662)",
                 "nothing is built in", f"- / {other} (recurrent networks, 1711.00350)")
        for split, other in (("length", ".208"), ("jump", ".012"))
    ),
    Headline("listops", "listops", "official d20s", ".999 (Ordered Memory, 1910.13466)",
             "trained on at most 100 symbols"),
)  # fmt: skip
_BABI = {
    ("1k", False): ("none; 13.8 by a memory network", "900 questions to train on; no best of ten"),
    ("1k", True): ("none; 12.4 by a memory network", "900 questions to train on; no best of ten"),
    ("10k", False): ("6.98, best of ten (Universal-Transformer-Pytorch)", "40 passes; no qa3"),
    ("10k", True): ("about 40 (bAbI-T2T, thread 7)", "40 passes; no qa3"),
}


def summary_table(runs: Sequence[RunRecord]) -> str:
    """Return one row a task: our model that halts, the best that is published, and why they differ.

    Of several variants of the preset `small` it is the first that was measured.
    """
    rows = [
        [line.task, line.column, _ours(line, runs), line.published, line.reproduced, line.differs]
        for line in HEADLINES
    ]
    for (size, joint), (reproduced, differs) in _BABI.items():
        task = f"bAbI, {size}, {'all together' if joint else 'one by one'}"
        ours, paper = babi_summary(runs, size, joint=joint), f"UT {BABI_ERROR[size, joint]}"
        rows.append([task, "average error, %", ours, paper, reproduced, differs])
    head = ["task", "measure", "ours", "best published", "reproduced by others", "what differs"]
    return markdown_table(head, rows)


def _ours(line: Headline, runs: Sequence[RunRecord]) -> str:
    table = TASK_TABLES[line.table]
    [entry] = [e for e in table.entries if (e.label or e.task) == line.task]
    [column] = [column for column in table.columns if column.title == line.column]
    for variant, records in entry.variants(runs).items():
        if variant[0] == SMALL and records:
            cell = column.cell(records)
            return f"{cell} ({variant_name(variant)}, {in_words(len(records))})"
    return "not measured yet"
