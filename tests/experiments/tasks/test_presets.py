from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any

import pytest

from graphut.experiments.cli.options import build
from graphut.experiments.tasks import TASKS, preset_of
from graphut.experiments.training import TrainingConfig, learner_of
from graphut.models.adaptive_model import AdaptiveModel

FOLDER = Path(__file__).parents[3] / "examples" / "tasks"
FILES = "circuits.py mis.py prefix_sums.py sudoku.py lte.py:program lte.py:copy listops.py:tree"
NAMES = [*TASKS, *(f"{FOLDER}/{file}" for file in FILES.split())]
# What the data decides, where it takes files to know it.
SIZES: dict[str, dict[str, Any]] = {
    "char-lm": {"vocab_size": 67},
    "multi30k": {"source_vocab": 8002, "target_vocab": 8002},
    "graphs": {"num_feats": 8, "classes": 3},
}


def model_of(name: str, preset: str) -> AdaptiveModel:
    values, learner = preset_of(name, preset), learner_of(TASKS[name])
    sizes = SIZES[name] if name in SIZES else build(TASKS[name], values).model_sizes
    return learner.model_kind(build(TASKS[name].config_kind, values, **sizes))


def weights(model: AdaptiveModel) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("name", "preset"), [(name, preset) for name in NAMES for preset in TASKS[name].presets]
)
def test_task_presets_fit_their_tasks(name: str, preset: str) -> None:
    values = preset_of(name, preset)
    kinds: list[Any] = [TASKS[name], TrainingConfig, TASKS[name].config_kind]
    assert set(values) <= {field.name for kind in kinds for field in fields(kind)}
    build(TrainingConfig, values)
    required = {f.name: "." for f in fields(TASKS[name]) if f.default is MISSING}
    build(TASKS[name], required | values)
    model_of(name, preset)


@pytest.mark.parametrize("name", [name for name in NAMES if TASKS[name].presets])
def test_with_baselines_are_as_large(name: str) -> None:
    names = ("small", "fixed", "transformer", "untied")
    small, fixed, transformer, untied = (model_of(name, preset) for preset in names)
    assert (fixed.config.adaptive, fixed.config.share_weights) == (False, True)
    assert (transformer.config.adaptive, transformer.config.share_weights) == (False, False)
    without = {"adaptive": False, "evaluation_rule": ""}
    assert asdict(fixed.config) == asdict(small.config) | without
    assert asdict(untied.config) == asdict(fixed.config) | {"share_weights": False}
    assert weights(transformer) == pytest.approx(weights(small), rel=0.05)
