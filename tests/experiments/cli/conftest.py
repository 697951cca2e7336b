from pathlib import Path
from shutil import copytree

import pytest

from graphut.experiments.cli import main
from tests.experiments.cli.tiny import TINY


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
