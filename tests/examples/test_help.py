from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from graphut.topology import registry

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


def run(example: Path, *argv: str) -> object:
    """Run an example as a program, and return the status with which it ends."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "argv", [str(example), *argv])
        # The topology of an example neither meets that of another run, nor stays.
        others = {name: make for name, make in registry.registry.items() if name != "powers"}
        patched.setattr(registry, "registry", others)
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(example), run_name="__main__")
    return ended.value.code


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_take_help(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert run(example, "--help") == 0
    assert capsys.readouterr().out.startswith(f"usage: {example.name} ")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "module", "advice"),
    [
        ("image_local_attention", "sklearn.datasets", "pip install scikit-learn"),
        ("compare_topologies", "matplotlib.figure", 'pip install "graphut[plot]"'),
        ("custom_topology", "matplotlib.figure", 'pip install "graphut[plot]"'),
    ],
)
def test_examples_name_the_package_that_they_need(
    name: str, module: str, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    assert run(EXAMPLES[0].with_name(f"{name}.py")) == 2
    said = capsys.readouterr()
    assert advice in said.err.splitlines()[-1] and "epoch 1" not in said.out


def test_cora_names_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    example = EXAMPLES[0].with_name("node_classification_cora.py")
    assert run(example, "--data", "nowhere.npz") == 2
    assert "nowhere.npz" in capsys.readouterr().err


def test_compare_topologies_leaves_runs_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "1-seed-0").mkdir()
    (tmp_path / "1-seed-0" / "run.json").touch()
    assert run(EXAMPLES[0].with_name("compare_topologies.py"), str(tmp_path)) == 2
    assert "there is a run in" in capsys.readouterr().err
