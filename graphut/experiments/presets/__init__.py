"""Where a task wants other defaults than those of its own, of `TrainingConfig` and of the model.

Each kind of tasks has a file here.
"""

from __future__ import annotations

from typing import Any

from graphut.experiments.presets import pairs, passages, questions, texts, translation
from graphut.experiments.presets.baselines import BASELINES, MEANINGS, SMALL

PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    **pairs.PRESETS,
    **texts.PRESETS,
    **questions.PRESETS,
    **passages.PRESETS,
    **translation.PRESETS,
}
"""For a task and a preset, both by name: fields, and their values."""


def preset_of(task: str, name: str | None = None) -> dict[str, Any]:
    """The fields of a task's preset; of `small`, or none at all, if no preset is named.

    Raises
    ------
    ValueError
        If the task has no preset of that name.

    Examples
    --------
    >>> preset_of("sort")["learning_rate"]
    0.003
    >>> preset_of("pairs")
    {}
    """
    known = PRESETS.get(task, {})
    if name is not None and name not in known:
        choices = f"it has: {', '.join(known)}" if known else "it has none"
        raise ValueError(f"the task {task} has no preset {name!r}; {choices}")
    return known.get(name or SMALL, {})


__all__ = ["BASELINES", "MEANINGS", "PRESETS", "SMALL", "preset_of"]
