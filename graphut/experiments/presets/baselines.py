"""What a small adaptive model is compared with."""

from __future__ import annotations

from typing import Any

SMALL = "small"
"""The preset that is taken where none is named: for two CPU cores."""

FIXED = "fixed"
"""The same without halting: every token takes `max_steps` steps."""

TRANSFORMER = "transformer"
"""A plain Transformer of about as many weights: each layer has its own, and nothing halts."""

BASELINES = (FIXED, TRANSFORMER)
"""What `small` is compared with."""

MEANINGS = {
    SMALL: "for two CPU cores",
    FIXED: "the same without halting",
    TRANSFORMER: "a plain Transformer of as many weights",
    "paper": "the paper's sizes",
}
"""What the presets are, in a few words."""

_FIXED = {"adaptive": False}
_TRANSFORMER = {**_FIXED, "share_weights": False}


def with_baselines(small: dict[str, Any], transformer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The presets `small`, `fixed` and `transformer`.

    Parameters
    ----------
    small : dict
        Fields of the first, and what the others have too.
    transformer : dict
        What makes the last as large.

    Examples
    --------
    >>> with_baselines({"d_model": 64}, {"d_model": 32, "max_steps": 4})["transformer"]
    {'d_model': 32, 'adaptive': False, 'share_weights': False, 'max_steps': 4}
    """
    return {
        SMALL: small,
        FIXED: {**small, **_FIXED},
        TRANSFORMER: {**small, **_TRANSFORMER, **transformer},
    }
