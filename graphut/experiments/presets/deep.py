"""What is computed of what was computed takes several steps, and a step that can be repeated."""

from __future__ import annotations

from typing import Any

DEEP: dict[str, Any] = {
    "transition": "sepconv",
    "norm": "pre",
    "halting_bias": -3.0,
    "halting_gain": 0.0,
    "ponder_weight": 0.01,
    "symmetric_init": True,
}
"""With pre-norm six steps train as well as one. All tokens begin with all steps, and learn to halt
while they learn to answer: a model that halts at its first step before that never learns what takes
two. What is alike belongs together, at first, and so does what stands side by side."""
