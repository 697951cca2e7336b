from pathlib import Path

import pytest

from graphut.experiments.cli import main
from graphut.experiments.tasks import TASKS, Sort
from tests.experiments.records.tiny import TINY_PRESETS


@pytest.fixture(autouse=True)
def presets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Presets that no one else changes."""
    for task, known in TINY_PRESETS.items():
        monkeypatch.setattr(TASKS[task], "presets", known)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Tiny runs of the task sort, to look at and not to change."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sort, "presets", TINY_PRESETS["sort"])
        for preset, options in {"small": [], "fixed": ["--max-steps", "1"]}.items():
            argv = ["train", "sort", "--preset", preset, *options, "--device", "cpu"]
            assert main([*argv, "--out", str(folder / preset)]) == 0
    return {path.name: path for path in folder.iterdir()}
