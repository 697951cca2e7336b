from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from graphut.experiments.cli.interruption import SIGNALS, Interruption


@pytest.mark.parametrize("number", SIGNALS)
def test_interruption_notes_a_signal(number: signal.Signals) -> None:
    with Interruption() as interruption:
        assert interruption.signal is None
        signal.raise_signal(number)
        assert interruption.signal == number


@pytest.fixture
def as_in_a_terminal() -> Iterator[None]:
    """Programs in the background of a shell do not hear of Ctrl-C; this one does."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("as_in_a_terminal")
def test_interruption_lets_the_second_ctrl_c_act() -> None:
    with Interruption() as interruption:
        signal.raise_signal(signal.SIGINT)
        assert interruption.signal == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_interruption_puts_handlers_back() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with Interruption():
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before
