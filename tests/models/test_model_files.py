import os
import pickle
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from graphut import Characters, Vocabulary
from graphut._files import read_checked_json, with_checksum, write_json
from graphut.models import UniversalTransformer
from graphut.models.model_files import read_checked_tensors, write_tensors
from graphut.nn import InputNoise, Quantized, Threshold
from tests.helpers import refuses
from tests.models.cases import SOURCES, build_model, logits_of, small

BIAS = "output.bias"
SHAPES: list[dict[str, Any]] = [
    {},
    {"tie_output": False},
    {"share_embeddings": True},
    {"share_embeddings": True, "tie_output": False},
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
    """Change fields of a configuration, and its checksum with them, as another program might."""
    fields = read_checked_json(folder / "config.json")
    write_json(folder / "config.json", with_checksum({**fields, **changes}))


def test_from_pretrained_restores_the_vocabularies(tmp_path: Path) -> None:
    model = build_model()
    model.vocabularies = {"source": Vocabulary("abc"), "target": Characters.of("a b\n")}
    model.save_pretrained(tmp_path)
    assert load(tmp_path).vocabularies == model.vocabularies
    (path := tmp_path / "target_vocabulary.json").write_text('["a", "b"]')
    refuses(r"target_vocabulary\.json is missing, was edited or belongs to another", load, tmp_path)
    path.unlink()
    refuses(r"target_vocabulary\.json is missing, was edited or belongs to another", load, tmp_path)
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
    tied, shared = again.config.tie_output, again.config.share_embeddings
    assert (again.output.weight is again.target_embedding.weight) == tied
    assert (again.source_embedding is again.target_embedding) == shared


def test_from_pretrained_takes_the_dtype_of_the_weights(tmp_path: Path) -> None:
    model = build_model().bfloat16()
    model.save_pretrained(tmp_path)
    for a, b in zip(load(tmp_path).parameters(), model.parameters(), strict=True):
        assert a.dtype == torch.bfloat16 and torch.equal(a, b)


@pytest.mark.parametrize(
    ("setting", "value", "made"),
    [
        ("halted", "stale", "'copied'"),
        ("inject_input", True, "False"),
        ("position_signal", None, r"SinusoidalSignal\(8, count_from=1\)"),
        ("step_signal", torch.nn.Identity(), r"SinusoidalSignal\(8, count_from=1\)"),
        ("noise", InputNoise(0.2), "None"),
        ("quantize", Quantized(2), "None"),
    ],
)
def test_save_pretrained_refuses_settings_that_the_configuration_does_not_have(
    setting: str, value: Any, made: str, tmp_path: Path
) -> None:
    model = build_model()
    setattr(model.decoder, setting, value)
    message = rf"cannot be saved: decoder\.{setting} is .*, but the configuration makes it {made}"
    refuses(message, model.save_pretrained, tmp_path)


def test_from_pretrained_never_unpickles(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("pickle was used")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    monkeypatch.setattr(torch, "load", refuse)
    load(folder)
    (folder / "model.safetensors").write_bytes(pickle.dumps({"a": 1}))
    refuses("damaged or not a safetensors file", load, folder)


@pytest.mark.parametrize(
    ("call", "which"), [("fsync", 0), ("fsync", 1), ("replace", 0), ("replace", 1)]
)
def test_save_pretrained_in_a_crash_keeps_the_old_model_or_is_detected(
    call: str, which: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = logits_of(load(folder))
    function, calls = getattr(os, call), count()

    def fail(*arguments: Any, **options: Any) -> Any:
        if next(calls) >= which:
            raise OSError("the disk is full")
        return function(*arguments, **options)

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="the disk is full"):
        build_model(seed=1, halted="stale").save_pretrained(folder)
    monkeypatch.undo()
    assert len(list(folder.iterdir())) == 2
    if (call, which) != ("replace", 1):
        assert torch.equal(logits_of(load(folder)), before)
        return
    # The new weights fit the shapes of the old configuration, but would mean another model.
    refuses(r"model.safetensors does not belong to its config.json", load, folder)


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
        (lambda w: w.pop(BIAS), "cannot be loaded: weights are missing: output.bias"),
        (lambda w: w.update(extra=torch.zeros(2)), "weights are unknown: extra"),
        (lambda w: w.update({BIAS: w[BIAS][1:]}), r"output.bias is \(6,\); .* \(7,\)"),
        (lambda w: w.update({BIAS: w[BIAS].half()}), "weights in torch.float16, torch.float64; "),
        (lambda w: w.update({k: v.long() for k, v in w.items()}), "weights in torch.int64; "),
        (lambda w: w[BIAS][2:3].fill_(-torch.inf), "output.bias holds NaN or infinity"),
    ],
)
def test_from_pretrained_refuses_foreign_weights(
    change: Callable[[Any], Any], message: str, folder: Path
) -> None:
    path = folder / "model.safetensors"
    weights, metadata = read_checked_tensors(path)
    change(weights)
    write_tensors(path, weights, **metadata)
    refuses(message, load, folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "Transformer"}, "describes 'Transformer', not a UniversalTransformer"),
        ({"model": "z" * 10**5}, r"config.json describes 'z*\.\.\., not a UniversalTransformer"),
        ({"colour": 1}, "config.json: the configuration has unknown fields: colour"),
        ({"max_steps": 0}, "config.json: max_steps must be at least 1; got 0"),
        ({"encoder_topology": "zigzag"}, "config.json: .*'zigzag': unknown topology 'zigzag': .*$"),
        ({"norm": "z" * 10**5}, r"config.json: norm must be one of .*; got '.{0,100}$"),
        ({"rule": "act:threshold=2"}, r"config.json: rule cannot .*\(0, 1\], got 2.0"),
        ({"encoder_topology": "(" * 100_000}, r"config.json: "),
        # Before any memory is asked for:
        ({"d_hidden": 10**9}, "model.safetensors does not belong to its config.json"),
        ({"source_vocab": 10**30}, "model.safetensors does not belong to its config.json"),
    ],
)
def test_from_pretrained_refuses_foreign_configurations(
    change: dict[str, Any], message: str, folder: Path
) -> None:
    change_config(folder, **change)
    refuses(message, load, folder)


def test_from_pretrained_refuses_wrong_and_missing_checksums(folder: Path) -> None:
    path = folder / "config.json"
    text = path.read_text()
    path.write_text(text.replace('"max_steps": 5', '"max_steps": 6'))  # one changed digit
    refuses("does not match its checksum", load, folder)
    path.write_text(text)
    path = folder / "model.safetensors"
    write_tensors(path, load_file(path))
    refuses("or another program has edited one of them", load, folder)
    save_file(load_file(path), path)
    refuses("does not match its checksum", load, folder)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda model: setattr(model, "source_embedding", model.target_embedding),
            "weights are missing: source_embedding.weight",
        ),
        (
            lambda model: model.output.bias.data.fill_(torch.nan),
            "output.bias holds NaN or infinity",
        ),
        (lambda model: model.decoder.double(), "are weights in torch.float32, torch.float64"),
        (
            lambda model: setattr(model.encoder, "max_steps", 1),
            r"values of max_steps, 1 and 5, but",
        ),
        (lambda model: setattr(model.decoder, "rule", Threshold(0.2)), "rule, .*: set rule of the"),
    ],
)
def test_save_pretrained_refuses_what_could_not_be_loaded(
    spoil: Callable[[Any], Any], message: str, tmp_path: Path
) -> None:
    spoil(model := UniversalTransformer(small()))
    refuses(message, model.save_pretrained, tmp_path / "model")
    assert not (tmp_path / "model").exists()
