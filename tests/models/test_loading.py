from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from graphut import models
from graphut.models import load

SMALL: dict[str, int] = {"d_model": 8, "num_heads": 2, "d_hidden": 8}
SIZES: dict[str, dict[str, int]] = {
    "UniversalGraphTransformer": {"num_feats": 3, "classes": 2},
    "UniversalTransformer": {"source_vocab": 7, "target_vocab": 7},
    "UniversalTransformerClassifier": {"vocab_size": 7, "classes": 2},
    "UniversalTransformerLM": {"vocab_size": 7},
    "UniversalTransformerPointer": {"vocab_size": 7},
}


def build(name: str) -> Any:
    kind = getattr(models, name)
    return kind(kind.config_class(**SMALL, **SIZES[name]))


def test_load_knows_every_model() -> None:
    assert {f"{name}Config" for name in SIZES} == {n for n in models.__all__ if "Config" in n}


@pytest.mark.parametrize("name", SIZES)
def test_load_finds_the_class(name: str, tmp_path: Path) -> None:
    model = build(name)
    model.save_pretrained(tmp_path)
    again = load(tmp_path)
    assert type(again) is type(model) and again.config == model.config and not again.training


@pytest.mark.parametrize("kind", ["Elsewhere", None, [], {"a": 1}])
def test_load_names_a_class_that_graphut_does_not_have(kind: object, tmp_path: Path) -> None:
    build("UniversalTransformer").save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model": kind}))
    with pytest.raises(ValueError, match=r"config.json describes .*, and graphut has Universal"):
        load(tmp_path)
