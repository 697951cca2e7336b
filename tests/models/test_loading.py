import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from graphut import models
from graphut._files import read_json, write_json
from graphut.models import UniversalTransformer, load
from graphut.models.adaptive_model import KINDS
from graphut.nn import ACT
from tests.helpers import refuses
from tests.models.cases import CASES, build_model, rows_of, small


def test_load_knows_every_model() -> None:
    kinds = {name.removesuffix("Config") for name in models.__all__ if "Config" in name}
    assert len(kinds) == 3 and kinds <= KINDS.keys()


def test_load_finds_a_class_of_ones_own(tmp_path: Path) -> None:
    class OwnTransformer(UniversalTransformer):
        pass

    OwnTransformer(small()).save_pretrained(tmp_path)
    assert type(load(tmp_path)) is OwnTransformer


@pytest.mark.parametrize("kind", ["Elsewhere", "AdaptiveModel", "GenerativeModel", None, [], {}])
def test_load_names_a_class_that_is_not_there(kind: object, tmp_path: Path) -> None:
    build_model().save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    write_json(path, {**read_json(path), "model": kind})
    message = r"config.json describes .*; known models are Universal.* \(import the module of your"
    refuses(message, load, tmp_path)


def test_loading_and_saving_do_not_import_the_compiler_of_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from graphut.models import load;"
        f"load('examples/sort').save_pretrained({str(tmp_path)!r});"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


@pytest.mark.parametrize("name", CASES)
def test_load_restores_each_model(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    model = case.build(halted="frozen")
    model.max_steps, model.rule, model.evaluation_rule = 3, ACT(threshold=0.8), ACT(threshold=0.9)
    model.save_pretrained(tmp_path)
    again = load(tmp_path)
    assert type(again) is type(model)
    rules = {"rule": "act:threshold=0.8", "evaluation_rule": "act:threshold=0.9"}
    assert again.config == replace(model.config, max_steps=3, **rules)
    assert all(map(torch.equal, rows_of(case.run(again)), rows_of(case.run(model))))
