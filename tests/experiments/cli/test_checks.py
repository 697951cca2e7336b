from __future__ import annotations

from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
import torch

from graphut.experiments.cli import checks
from graphut.experiments.cli.checks import check_device, check_specs
from tests.topology import catalogue


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"rule": "act1:threshold=2", "task": "copy"},
            "rule cannot be 'act1:threshold=2': there is no halting rule 'act1', did you mean act",
        ),
        ({"evaluation_rule": "sure"}, "there is no halting rule 'sure'; choose one of: fixed, act"),
        (
            {"encoder_topology": "windw:3", "task": "copy"},
            "encoder_topology cannot be 'windw:3': unknown topology 'windw', did you mean window",
        ),
        ({"specs": ["star", "causal&(star|Star)"]}, "unknown topology 'Star', did you mean star"),
        ({"rule": "act:threshold=7"}, r"threshold must lie in \(0, 1\], got 7.0"),
        ({"spec": "causal|window:-1"}, "window: radius must not be negative, got -1"),
    ],
)
def test_check_specs_quotes_what_is_unknown(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_specs(options)


def test_check_specs_accepts_what_the_parsers_accept() -> None:
    check_specs({"topology": [*catalogue.ALL], "spec": None, "set": "test"})
    check_specs({"rule": "global:act:cost=remainder", "evaluation_rule": ""})
    with pytest.raises(ValueError, match="cannot contain another 'global'"):
        check_specs({"rule": "global:" * 2000 + "act"})


@pytest.mark.parametrize("name", ["abacus", "meta", "mps", "", "cuda:x"])
def test_check_device_refuses_other_devices(name: str) -> None:
    with pytest.raises(ValueError, match=f'must be "cpu", "cuda" or, .*; got {name!r}'):
        check_device(name)


def test_check_device_knows_whether_torch_is_built_for_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert checks.torch_is_for_cpus() is (torch.version.cuda is torch.version.hip is None)
    origin = str(tmp_path / "__init__.py")
    monkeypatch.setattr(checks, "find_spec", lambda name: ModuleSpec(name, None, origin=origin))
    check_device("cuda")  # without version.py, torch decides
    for text in ("cuda = '12.4'; hip = None", "cuda = None; hip = '6.2'", "cuda = None"):
        (tmp_path / "version.py").write_text(text)
        check_device("cuda:1")
    (tmp_path / "version.py").write_text("cuda = None; hip = None")
    with pytest.raises(ValueError, match="there is no device 'cuda:1' here: Torch not compiled"):
        check_device("cuda:1")
