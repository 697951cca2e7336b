"""BLEU as in Papineni et al. (2002), for sentences of words between spaces."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

ORDER = 4


def grams(sentence: str, order: int) -> Counter[tuple[str, ...]]:
    words = sentence.split()
    return Counter(tuple(words[i : i + order]) for i in range(len(words) - order + 1))


def naive_bleu(outputs: Sequence[str], references: Sequence[str]) -> float:
    """Return BLEU from 0 to 100; the first order without a match counts 1/2, the next 1/4, ...

    (Chen and Cherry 2014, smoothing 3.)
    """
    found, wanted = (sum(len(text.split()) for text in texts) for texts in (outputs, references))
    share, logarithms = 1.0, []
    for order in range(1, ORDER + 1):
        both = zip(outputs, references, strict=True)
        pairs = [(grams(output, order), grams(reference, order)) for output, reference in both]
        total = sum(out.total() for out, _ in pairs)
        right = float(sum((out & ref).total() for out, ref in pairs))
        if total == 0:
            return 0.0
        if right == 0:
            share /= 2
            right = share
        logarithms.append(math.log(right / total))
    brevity = min(0.0, 1 - wanted / found)
    return 100 * math.exp(brevity + sum(logarithms) / ORDER)
