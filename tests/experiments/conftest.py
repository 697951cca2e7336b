from collections.abc import Callable
from pathlib import Path

import pytest

from graphut.experiments.cli import main


@pytest.fixture
def output(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command that succeeds, and returns its output."""

    def run(*argv: str | Path) -> str:
        capsys.readouterr()
        assert main([*map(str, argv)]) == 0
        return capsys.readouterr().out

    return run


@pytest.fixture
def refusal(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command that is refused, and returns its one line of error."""

    def run(*argv: str | Path) -> str:
        capsys.readouterr()
        assert main([*map(str, argv)]) == 2
        text = capsys.readouterr().err
        assert text.startswith("graphut: ") and text.count("\n") == 1
        return text

    return run
