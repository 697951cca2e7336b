"""Options of runs that take a second, and the comparison of two such runs."""

import shlex
from pathlib import Path

import torch
from safetensors.torch import load_file

from graphut._files import write_json
from graphut.experiments.tasks import TASKS
from graphut.experiments.training import Run, TrainingConfig
from graphut.experiments.training.run_files import METRICS, append_metrics, read_metrics

TINY = shlex.split(
    "--mean-length 3 --length-deviation 1 --epoch-size 16 --held-out 4 --batch-size 8 "
    "--d-model 8 --num-heads 2 --d-hidden 8 --max-steps 2 --device cpu --epochs 2"
)

MODEL = shlex.split("--d-model 8 --num-heads 2 --d-hidden 8 --max-steps 2 --epochs 1 --device cpu")


def describe_run(folder: Path, task: str) -> str:
    """Write the JSON files of a run, with an empty file of weights; return the folder."""
    kind, config = TASKS[task], TASKS[task].config_kind
    sizes = {"source_vocab": 9, "target_vocab": 9, "vocab_size": 9, "num_kinds": 2, "classes": 2}
    known = {name: size for name, size in sizes.items() if name in kind.from_data}
    folder.mkdir()
    states = {name: vocabulary.to_json() for name, vocabulary in kind().vocabularies.items()}
    write_json(folder / "vocabularies.json", states)
    Run(folder, task, {}, TrainingConfig(), "1", {}).write()
    fields = {"model": config.__name__.removesuffix("Config"), **known}
    write_json(folder / "config.json", fields)
    (folder / "model.safetensors").touch()
    append_metrics(folder / METRICS, {"update": 1})
    return str(folder)


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
