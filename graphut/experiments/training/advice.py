"""When halting has gone wrong, and what to turn."""

from __future__ import annotations

COLLAPSED = 1.05  # steps
AT_CAP = 0.95  # of the cap
LEARNED = 0.98  # of the labels: whoever gets these right needs no more steps


def ponder_advice(part: str, steps: float, cap: int, accuracy: float) -> str | None:
    """What to say about the mean steps of an epoch, if they have collapsed or sit at the cap.

    Parameters
    ----------
    part : str
        "encoder" or "decoder".
    steps : float
        Mean steps of a token.
    cap : int
        The most that a token may take. With one step there is nothing to say.
    accuracy : float
        Share of the labels that were right.

    Examples
    --------
    >>> ponder_advice("decoder", 2.5, 6, 0.5)
    >>> print(ponder_advice("decoder", 1.0, 6, 0.5))
    The decoder takes 1.00 of 6 steps: it halts at once. Turn down ponder_weight, turn up
    ponder_warmup, make halting_bias more negative, or set halting_gain to 0.
    """
    if cap == 1:
        return None
    if steps <= COLLAPSED and accuracy < LEARNED:
        return (
            f"The {part} takes {steps:.2f} of {cap} steps: it halts at once. Turn down "
            "ponder_weight, turn up ponder_warmup, make halting_bias more negative, or set "
            "halting_gain to 0."
        )
    if steps >= AT_CAP * cap:
        return (
            f"The {part} takes {steps:.2f} of {cap} steps: it never halts before the cap. Turn up "
            "ponder_weight, halting_bias or max_steps, or lower threshold."
        )
    return None
