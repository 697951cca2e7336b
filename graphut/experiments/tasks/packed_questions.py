"""Questions as arrays, which a cache can keep."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphut.experiments.tasks.base import Question
from graphut.experiments.tasks.packed import Arrays, Packed, pack_words, unpack_words


def pack_questions(questions: Sequence[Question]) -> Arrays:
    """Questions as arrays; a sentence that comes many times is in them once.

    Examples
    --------
    >>> questions = [Question([[4, 5], [6]], [4], 0, (1,), "qa1"), Question([], [6], 2)]
    >>> unpack_questions(pack_questions(questions)) == questions
    True
    """
    numbers: dict[tuple[int, ...], int] = {}
    groups: dict[str, int] = {}
    facts, asked, group = [], [], []
    for question in questions:
        facts.append([numbers.setdefault(tuple(f), len(numbers)) for f in question.facts])
        asked.append(numbers.setdefault(tuple(question.question), len(numbers)))
        group.append(groups.setdefault(question.group, len(groups)))
    return {
        **Packed.of(list(numbers)).arrays("sentences"),
        **Packed.of(facts).arrays("facts"),
        **Packed.of([question.supporting for question in questions]).arrays("supporting"),
        "question": np.array(asked, np.int32),
        "answer": np.array([question.answer for question in questions], np.int32),
        "group": np.array(group, np.int32),
        "groups": pack_words(groups),
    }


def unpack_questions(arrays: Arrays) -> list[Question]:
    """What `pack_questions` was given."""
    sentences = [*Packed.read(arrays, "sentences")]
    groups = unpack_words(arrays["groups"])
    columns = (arrays[name].tolist() for name in ("question", "answer", "group"))
    lists = (Packed.read(arrays, name) for name in ("facts", "supporting"))
    return [
        Question([sentences[f] for f in facts], sentences[asked], answer, tuple(by), groups[group])
        for facts, by, asked, answer, group in zip(*lists, *columns, strict=True)
    ]
