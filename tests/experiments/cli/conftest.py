from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import pytest

from graphut.experiments.cli import main
from tests.experiments.cli.tiny import TINY


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


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny run of the task sort, to look at and not to change."""
    folder = tmp_path_factory.mktemp("runs") / "sort"
    assert main(["train", "sort", "--out", str(folder), *TINY]) == 0
    return folder


@pytest.fixture
def copied_run(finished_run: Path, tmp_path: Path) -> Path:
    """A copy of that run, `tmp_path / "run"`, to change."""
    return Path(copytree(finished_run, tmp_path / "run"))
