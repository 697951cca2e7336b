"""BLEU, as sacreBLEU counts it."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import NamedTuple


class Bleu(NamedTuple):
    """A score from 0 to 100, and how and with which version sacreBLEU has counted it."""

    score: float
    signature: str


def sacrebleu_package() -> ModuleType:
    """Import `sacrebleu`, or raise `ImportError` that says how to install it."""
    try:
        import sacrebleu
    except ImportError as error:
        raise ImportError(
            f"BLEU needs sacrebleu ({error}): pip install graphut[translation]"
        ) from None
    return sacrebleu


def bleu(outputs: Sequence[str], references: Sequence[str]) -> Bleu:
    """Return the BLEU of a corpus (Papineni et al. 2002), as sacreBLEU has it (arXiv 1804.08771).

    Outputs and references are equally many sentences, not tokenised, in the same order.
    """
    # Forced: sentences that look tokenised are said to be so where the data is described.
    metric = sacrebleu_package().metrics.BLEU(force=True)
    score = metric.corpus_score(list(outputs), [list(references)]).score
    return Bleu(score, str(metric.get_signature()))
