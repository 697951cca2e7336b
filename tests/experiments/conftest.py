from collections.abc import Callable
from pathlib import Path

import pytest

from graphut.experiments.cli import main
from graphut.experiments.tasks import Sort
from graphut.experiments.tasks.presets import with_baselines

_TINY = {"d_model": 8, "num_heads": 2, "d_hidden": 8, "max_steps": 2, "epochs": 2, "batch_size": 8}
_SORT = {**_TINY, "mean_length": 3, "length_deviation": 1, "epoch_size": 16, "held_out": 4}
_PRESETS = with_baselines(_SORT, {"d_model": 4})


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


@pytest.fixture
def tiny_presets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Presets whose runs take a second, and that no one else changes."""
    monkeypatch.setattr(Sort, "presets", _PRESETS)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Tiny runs of the task sort, to look at and not to change."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sort, "presets", _PRESETS)
        for preset, options in {"small": [], "fixed": ["--max-steps", "1"]}.items():
            argv = ["train", "sort", "--preset", preset, *options, "--device", "cpu"]
            assert main([*argv, "--out", str(folder / preset)]) == 0
    return {path.name: path for path in folder.iterdir()}
