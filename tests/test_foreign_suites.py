from pathlib import Path

import pytest

from tests.foreign_suites import SUITES, Suite, main

CHECKS = {
    "tests/python/pytorch/nn/test_nn.py": """
import dgl.nn.pytorch as nn
import helper_beside_the_tests

def test_gat_conv():
    layers = {nn.GATConv, nn.GATv2Conv, nn.DotGatConv}
    assert [layer.__module__ for layer in layers] == ["graphut.nn.dgl_layers"]

def test_of_another_layer():
    raise AssertionError("not to be run")
""",
    "test/nn/conv/test_transformer_conv.py": """
from torch_geometric.nn import TransformerConv

def test_transformer_conv():
    assert TransformerConv.__module__ == "graphut.nn.pyg_layers"
""",
}


@pytest.mark.full
@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.file)
def test_main_runs_foreign_tests_with_our_layers(suite: Suite, tmp_path: Path) -> None:
    pytest.importorskip("torch_geometric")
    file = tmp_path / suite.file
    file.parent.mkdir(parents=True)
    (tmp_path / suite.helpers / "helper_beside_the_tests.py").write_text("")
    file.write_text(CHECKS[suite.file])
    before = sorted(tmp_path.rglob("*"))
    assert main([str(tmp_path)]) == 0
    assert sorted(tmp_path.rglob("*")) == before
    file.write_text(CHECKS[suite.file].replace("graphut.nn", "another"))
    assert main([str(tmp_path)]) == 1


def test_main_refuses_folders_without_tests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([]) == main([str(tmp_path)]) == 2
    assert "0 have one of: tests/python/pytorch/nn/test_nn.py, test/" in capsys.readouterr().out
