from __future__ import annotations

import pytest

from graphut.experiments.training.advice import ponder_advice


@pytest.mark.parametrize("steps", [1.0, 1.05])
def test_collapse(steps: float) -> None:
    advice = ponder_advice("encoder", steps, 6, 0.5)
    assert advice is not None
    assert f"encoder takes {steps:.2f} of 6 steps: it halts at once" in advice


@pytest.mark.parametrize("steps", [5.7, 6.0])
def test_cap(steps: float) -> None:
    advice = ponder_advice("decoder", steps, 6, 1.0)
    assert advice is not None
    assert f"decoder takes {steps:.2f} of 6 steps: it never halts before the cap" in advice


@pytest.mark.parametrize(("steps", "cap"), [(1.06, 6), (5.69, 6), (1.0, 1)])
def test_nothing_to_say(steps: float, cap: int) -> None:
    assert ponder_advice("encoder", steps, cap, 0.5) is None


def test_one_step_is_enough_for_what_is_learned() -> None:
    assert ponder_advice("encoder", 1.0, 6, 0.99) is None
