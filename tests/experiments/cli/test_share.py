from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import pytest

import graphut
from graphut.experiments.cli import main
from graphut.experiments.records.card import run_card
from graphut.experiments.training import Run
from tests.models.hub import Hub


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    monkeypatch.chdir(tmp_path)
    return Hub(tmp_path / "cache", monkeypatch)


def test_share_writes_the_card_once(
    finished_run: Path, tmp_path: Path, output: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    copytree(finished_run, "runs/sort")
    assert output("share", "runs/sort", "--license", "mit") == "runs/sort/README.md\n"
    card = Path("runs/sort/README.md")
    assert card.read_text() == run_card(Run.open("runs/sort"), "runs/sort", "mit")
    card.write_text("by hand")
    assert "README.md is kept" in output("share", "runs/sort")
    assert card.read_text() == "by hand"


def test_share_uploads_what_a_run_needs(
    copied_run: Path, hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copied_run
    (folder / "notes.txt").write_text("mine")
    assert main(["share", str(folder), "--private", "ann/sort"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"{hub.address}/ann/sort"
    assert hub.made == [True]
    files = hub.files("ann/sort")
    here = {path.name for path in folder.iterdir() if path.is_file()}
    assert here - files.keys() == {"checkpoint.safetensors", "lock", "notes.txt"}
    assert 'graphut.load("ann/sort")' in files["README.md"].decode()
    assert graphut.load("ann/sort").config == Run.open(folder).model().config
    # As `hf download ann/sort --local-dir again` puts them.
    again = tmp_path / "again"
    again.mkdir()
    for name, data in files.items():
        (again / name).write_bytes(data)
    said = []
    for copy in (folder, again):
        for argv in (["generate", str(copy), "b a"], ["eval", str(copy)], ["info", str(copy)]):
            assert main(argv) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
