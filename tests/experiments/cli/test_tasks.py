"""Every task of pairs that needs no files is trained, judged and asked from the command line."""

from __future__ import annotations

import shlex
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from graphut.experiments.cli import main
from graphut.experiments.tasks import TASKS
from graphut.experiments.training import Run
from graphut.experiments.wording import flag
from tests.experiments.tasks.tiny import GENERATED

SIZES = {
    "epoch_size": 8,
    "train_size": 8,
    "held_out": 4,
    "mean_length": 3,
    "train_length": 4,
    "test_length": 6,
    "length": 2,
    "longest": 10,
}
MODEL = shlex.split("--d-model 8 --num-heads 2 --d-hidden 8 --max-steps 2 --epochs 1 --device cpu")


@pytest.mark.parametrize("name", GENERATED)
def test_train_eval_and_generate(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind: Any = TASKS[name]
    options = [
        text
        for field in fields(kind)
        if field.name in SIZES
        for text in (flag(field.name), str(SIZES[field.name]))
    ]
    folder = str(tmp_path)
    assert main(["train", name, "--out", folder, *options, *MODEL]) == 0
    run = Run.open(folder)
    sets = run.task().test_sets
    capsys.readouterr()
    assert main(["eval", folder, "--device", "cpu"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(",")[0] for line in lines] == list(sets)
    text = run.vocabularies["source"].write(sets["test"][0][0])
    assert main(["generate", folder, text, "--device", "cpu"]) == 0
    assert capsys.readouterr().out.lstrip().startswith("input ")
