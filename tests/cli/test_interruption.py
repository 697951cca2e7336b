from __future__ import annotations

import signal

import pytest

from graphut.cli.interruption import SIGNALS, Interruption


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_is_noted(number: signal.Signals) -> None:
    with Interruption() as interruption:
        assert not interruption.happened
        signal.raise_signal(number)
        assert interruption.signal == number


def test_the_second_ctrl_c_acts_as_ever() -> None:
    with Interruption() as interruption:
        signal.raise_signal(signal.SIGINT)
        assert interruption.happened
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_handlers_are_put_back() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with Interruption():
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before
