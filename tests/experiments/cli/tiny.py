"""Options of runs that take a second, and the comparison of two such runs."""

from __future__ import annotations

import shlex
from pathlib import Path

import torch
from safetensors.torch import load_file

from graphut.experiments.training.run_files import METRICS, read_metrics

TINY = shlex.split(
    "--mean-length 3 --length-deviation 1 --epoch-size 16 --held-out 4 --batch-size 8 "
    "--d-model 8 --num-heads 2 --d-hidden 8 --max-steps 2 --device cpu --epochs 2"
)

MODEL = shlex.split("--d-model 8 --num-heads 2 --d-hidden 8 --max-steps 2 --epochs 1 --device cpu")


def assert_same_run(folder: Path, other: Path) -> None:
    """The same model, training state and metrics, but for the time; and nothing else is left."""
    models = [(each / "model.safetensors").read_bytes() for each in (folder, other)]
    assert models[0] == models[1]
    states = [load_file(each / "checkpoint.safetensors") for each in (folder, other)]
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    lines = [read_metrics(each / METRICS) for each in (folder, other)]
    assert [x | {"seconds": 0} for x in lines[0]] == [x | {"seconds": 0} for x in lines[1]]
    assert not list(folder.glob(".*"))
