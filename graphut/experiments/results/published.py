"""Published figures of others, and their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PAPER = "arXiv 1807.03819"
DGL = "DGL's examples/pytorch/transformer"
TINY = "github.com/LividWo/Revisit-MMT"


@dataclass(frozen=True)
class Published:
    """A published row of a table."""

    who: str  # the model
    cells: Mapping[str, str]  # figures, by the title of their column
    source: str


def _algorithmic(figures: str) -> list[Published]:
    # The paper says "400" and not whether that is a limit or the length of every sequence.
    cells = {"up to 400": figures, "exactly 400": figures}
    return [Published("paper", cells, f"{PAPER}, section 3.4")]


def _lte(characters: str, outputs: str) -> list[Published]:
    # The paper does not say of which sizes its figures are. Its characters are counted with the
    # true prefix given.
    cells = {
        cell: figures
        for title in ("mixed", "hardest")
        for cell, figures in ((f"{title}, prefix given", characters), (title, f"- / {outputs}"))
    }
    return [Published("paper", cells, f"{PAPER}, section 3.5")]


PUBLISHED: Mapping[str, list[Published]] = {
    "algorithmic-copy": _algorithmic(".91 / .35"),
    "algorithmic-reverse": _algorithmic(".96 / .46"),
    "algorithmic-addition": _algorithmic(".34 / .02"),
    "lte-program": _lte(".89", ".63"),
    **{
        f"lte-{task}": _lte("1.0", "1.0")
        for task in ("control", "addition", "copy", "double", "reverse")
    },
    "agreement": [
        Published("paper (small)", {"all": ".992", "5 attractors": ".931"}, f"{PAPER}, section 3.2")
    ],
    "lambada": [
        Published("paper", {"last words": ".19", "perplexity": "142"}, f"{PAPER}, section 3.3")
    ],
    "lambada-reading": [Published("paper", {"answers": ".5625"}, f"{PAPER}, section 3.3")],
    "multi30k": [
        Published("DGL's example, 6 layers", {"BLEU": "35.41"}, DGL),
        Published("DGL's example, 2 layers", {"BLEU": "36.45"}, DGL),
    ],
    "multi30k, small letters, tokens": [
        Published("Transformer-tiny, beam of 5", {"BLEU": "41.02"}, f"{TINY}, README-baseline.md")
    ],
    "wmt14": [Published("paper (base, no halting)", {"BLEU": "28.9"}, f"{PAPER}, section 3.6")],
}  # fmt: skip
"""Published rows, by the label of the entry under which they stand."""

BABI_ERROR: Mapping[tuple[str, bool], str] = {
    ("10k", False): "0.21 (0.20 without qa3)",
    ("10k", True): "0.29",
    ("1k", False): "4.56",
    ("1k", True): "7.85",
}
"""Average error of the adaptive model on bAbI (arXiv 1807.03819, section 3.1) in percent, over all
20 tasks, by the size and whether they are learned jointly."""

BABI_STEPS: Mapping[int, float] = {1: 2.3, 2: 3.1, 3: 3.8}
"""Mean steps on bAbI, by the number of supporting facts (arXiv 1807.03819, section 3.1)."""
