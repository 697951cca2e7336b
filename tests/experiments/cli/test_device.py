from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
import torch

from graphut.experiments.cli import device
from graphut.experiments.cli.device import check_device, pick_device
from tests.helpers import refuses


def test_pick_device_takes_the_best_or_refuses_one_that_is_not_here() -> None:
    assert pick_device(None).type == ("cuda" if torch.cuda.is_available() else "cpu")
    refuses(r"there is no device 'cuda:99' here: .*$", pick_device, "cuda:99")


def test_check_device_knows_whether_torch_is_built_for_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert device.torch_is_for_cpus() is (torch.version.cuda is torch.version.hip is None)
    origin = str(tmp_path / "__init__.py")
    monkeypatch.setattr(device, "find_spec", lambda name: ModuleSpec(name, None, origin=origin))
    check_device("cuda")  # without version.py, torch decides
    for text in ("cuda = '12.4'; hip = None", "cuda = None; hip = '6.2'", "cuda = None"):
        (tmp_path / "version.py").write_text(text)
        check_device("cuda:1")
    (tmp_path / "version.py").write_text("cuda = None; hip = None")
    refuses("there is no device 'cuda:1' here: Torch not compiled", check_device, "cuda:1")
