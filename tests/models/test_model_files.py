import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from graphut import Characters, Vocabulary
from graphut._files import read_json, write_json
from graphut.models import UniversalTransformer
from graphut.models.model_files import read_tensors, write_tensors
from tests.helpers import refuses
from tests.models.cases import SOURCES, build_model, logits_of, small

BIAS = "output.bias"
SHAPES: list[dict[str, Any]] = [
    {},
    {"share_embeddings": True},
    {"source_vocab": 9, "norm": "pre", "transition": "sepconv"},
    {"adaptive": False, "decoder_topology": "window:2&causal"},
    {"share_weights": False, "adaptive": False, "scale_by_degree": True, "norm": "pre"},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    build_model().save_pretrained(tmp_path)
    return tmp_path


def load(folder: Path) -> UniversalTransformer:
    return UniversalTransformer.from_pretrained(folder)


def change_config(folder: Path, **changes: Any) -> None:
    """Change fields of a configuration, as another program might."""
    fields = read_json(folder / "config.json")
    write_json(folder / "config.json", {**fields, **changes})


def test_from_pretrained_restores_the_vocabularies(tmp_path: Path) -> None:
    model = build_model()
    model.vocabularies = {"source": Vocabulary("abc"), "target": Characters.of("a b\n")}
    model.save_pretrained(tmp_path)
    assert load(tmp_path).vocabularies == model.vocabularies
    build_model().save_pretrained(tmp_path)  # beside the vocabulary of the former model
    assert load(tmp_path).vocabularies == {}


@pytest.mark.parametrize("options", SHAPES, ids=str)
def test_from_pretrained_restores_the_model(options: dict[str, Any], tmp_path: Path) -> None:
    model = build_model(**options)
    model.save_pretrained(tmp_path / "new" / "folder")
    again = load(tmp_path / "new" / "folder")
    assert again.config == model.config
    assert torch.equal(logits_of(again), logits_of(model))
    assert again.generate(SOURCES, max_length=5) == model.generate(SOURCES, max_length=5)
    assert len(list(again.parameters())) == len(list(model.parameters()))
    assert again.output.weight is again.target_embedding.weight
    assert (again.source_embedding is again.target_embedding) == again.config.share_embeddings


def test_from_pretrained_takes_the_dtype_of_the_weights(tmp_path: Path) -> None:
    model = build_model().bfloat16()
    model.save_pretrained(tmp_path)
    for a, b in zip(load(tmp_path).parameters(), model.parameters(), strict=True):
        assert a.dtype == torch.bfloat16 and torch.equal(a, b)


def test_from_pretrained_never_unpickles(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("pickle was used")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    monkeypatch.setattr(torch, "load", refuse)
    load(folder)
    (folder / "model.safetensors").write_bytes(pickle.dumps({"a": 1}))
    refuses("damaged or not a safetensors file", load, folder)


def test_from_pretrained_refuses_a_folder_without_a_model(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere"):
        load(tmp_path / "nowhere")
    with pytest.raises(NotADirectoryError, match=r"config.json is a file: name the folder of the"):
        load(folder / "config.json")
    for missing in ("model.safetensors", "config.json"):
        (folder / missing).unlink()
        refuses(f"{folder} is not a model: it has no {missing}", load, folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w.pop(BIAS), "model.safetensors: weights are missing: output.bias"),
        (lambda w: w.update(extra=torch.zeros(2)), "weights are unknown: extra"),
        (lambda w: w.update({BIAS: w[BIAS][1:]}), r"output.bias is \(6,\); .* \(7,\)"),
    ],
)
def test_from_pretrained_refuses_foreign_weights(
    change: Callable[[Any], Any], message: str, folder: Path
) -> None:
    path = folder / "model.safetensors"
    weights, metadata = read_tensors(path)
    change(weights)
    write_tensors(path, weights, **metadata)
    refuses(message, load, folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "Transformer"}, "describes 'Transformer', not a UniversalTransformer"),
        ({"model": "z" * 10**5}, r"config.json describes 'z*\.\.\., not a UniversalTransformer"),
        ({"colour": 1}, "config.json: .*Config has no option 'colour'"),
        ({"max_steps": 0}, "config.json: max_steps must be at least 1; got 0"),
        ({"encoder_topology": "zigzag"}, "config.json: .*'zigzag': unknown topology 'zigzag': .*$"),
        ({"norm": "z" * 10**5}, r"config.json: norm must be one of .*; got '.{0,100}$"),
        ({"rule": "act:threshold=2"}, r"config.json: rule cannot .*\(0, 1\], got 2.0"),
    ],
)
def test_from_pretrained_refuses_foreign_configurations(
    change: dict[str, Any], message: str, folder: Path
) -> None:
    change_config(folder, **change)
    refuses(message, load, folder)


def test_save_pretrained_refuses_weights_that_are_not_finite(tmp_path: Path) -> None:
    (model := UniversalTransformer(small())).output.bias.data.fill_(torch.nan)
    refuses("output.bias holds NaN or infinity", model.save_pretrained, tmp_path / "model")
    assert not (tmp_path / "model").exists()
