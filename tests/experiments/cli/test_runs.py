import shutil
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
import torch

from graphut.experiments.cli import main
from graphut.experiments.tasks import Task
from graphut.experiments.training import Run, Trainer
from graphut.experiments.training.run_files import METRICS
from tests.experiments.cli.damage import damaged


def test_info_describes_a_run(finished_run: Path, output: Callable[..., str]) -> None:
    text = output("info", finished_run)
    *_, command = text.splitlines()
    assert all(len(line) <= 80 for line in text.splitlines()[:-1])
    text = " ".join(text.split())
    assert text.startswith("task sort: mean_length 3.0")
    assert " weights: " in text and "d_model 8" in text and "batch_size 8" in text
    changed = "--mean-length 3.0 --length-deviation 1.0 --epoch-size 16 --held-out 4 --epochs 2 "
    assert command.startswith(f"command   graphut train sort --preset small {changed}--batch-size ")
    assert "norm_eps" in text and "norm-eps" not in command and "evaluation_rule ''," in text
    assert "2 epochs, 4 updates" in text and "best on the validation set" in text


@pytest.mark.parametrize("count", [40, pytest.param(30_000, marks=pytest.mark.full)])
def test_info_generate_and_resume_say_what_is_damaged(
    finished_run: Path, tmp_path: Path, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever is damaged, there is an error of one line, or all is as it was saved.

    Or there is a line that says that nothing can be said, where the checksum was taken out.
    """
    random = Random(count)
    folder = shutil.copytree(finished_run, tmp_path / "run")
    names = sorted({path.name for path in folder.iterdir()} - {"evaluation-test.json"})
    task, expected = Run.open(folder).task(), _states(folder, Run.open(folder).task())
    for index in range(count):
        name = random.choice(names)
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(damaged(data, random))
        found = {}
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            assert main(["info", str(folder)]) in (0, 2)
            if not index % 10:  # it reads what the others read, and takes long
                assert main(["generate", str(folder), "b a", "--device", "cpu"]) in (0, 2)
            with suppress(OSError, ValueError):
                found = _states(folder, task)
        capsys.readouterr()
        for key, value in found.items():
            assert said or torch.equal(value, expected[key]), (name, key)
        (folder / name).write_bytes(data)
        shutil.copy(finished_run / METRICS, folder)


def _states(folder: Path, task: Task) -> dict[str, torch.Tensor]:
    """Return the weights and the training state in the folder of a run."""
    run = Run.open(folder)
    model = run.model()
    best = {f"best {name}": value.clone() for name, value in model.state_dict().items()}
    assert run.vocabularies and run.machines
    trainer = Trainer(model, task, run.training, folder)
    trainer.resume()
    moments = {
        f"{index} {name}": value
        for index, weight in enumerate(model.parameters())
        for name, value in trainer.optimizer.state[weight].items()
    }
    return best | model.state_dict() | moments


def test_info_of_a_run_that_has_just_begun(copied_run: Path, output: Callable[..., str]) -> None:
    (copied_run / METRICS).unlink()
    assert "progress  no epoch is complete yet" in output("info", copied_run)


def test_report_writes_a_page(
    finished_run: Path, tmp_path: Path, output: Callable[..., str]
) -> None:
    out = tmp_path / "report.html"
    out.write_text("of an older model")
    assert output("report", str(finished_run), "--out", str(out), "--device", "cpu") == f"{out}\n"
    page = out.read_text()
    assert page.startswith("<!doctype html>") and "Repeat the run" in page
