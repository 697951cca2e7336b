from pathlib import Path

import pytest

from tests.foreign_suites import FILE, main

CHECK = """
import helper_beside_the_tests
from torch_geometric.nn import TransformerConv

def test_transformer_conv():
    assert TransformerConv.__module__ == "graphut.nn.pyg_layers"
"""


@pytest.mark.full
def test_main_runs_foreign_tests_with_our_layer(tmp_path: Path) -> None:
    pytest.importorskip("torch_geometric")
    file = tmp_path / FILE
    file.parent.mkdir(parents=True)
    (tmp_path / "helper_beside_the_tests.py").write_text("")
    file.write_text(CHECK)
    before = sorted(tmp_path.rglob("*"))
    assert main([str(tmp_path)]) == 0
    assert sorted(tmp_path.rglob("*")) == before
    file.write_text(CHECK.replace("graphut.nn", "another"))
    assert main([str(tmp_path)]) == 1


def test_main_refuses_folders_without_tests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([]) == main([str(tmp_path)]) == 2
    assert f"each with {FILE}" in capsys.readouterr().out
