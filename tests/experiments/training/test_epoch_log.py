from __future__ import annotations

from pathlib import Path

import pytest

from graphut.experiments.cli import main
from graphut.experiments.training.run_files import METRICS, read_metrics
from tests.experiments.cli.tiny import TINY


@pytest.mark.filterwarnings("ignore::DeprecationWarning:tensorboard")
def test_epoch_log_in_tensorboard_of_a_resumed_run(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    command = ["train", "copy", "--out", str(tmp_path), "--tensorboard"]
    assert main([*command, *TINY]) == 0
    assert main([*command, "--resume", "--epochs", "3"]) == 0
    log, lines = EventAccumulator(str(tmp_path / "tensorboard")), read_metrics(tmp_path / METRICS)
    log.Reload()
    for group, name in (("training", "loss"), ("validation", "sequence_accuracy")):
        events = log.Scalars(f"{group}/{name}")
        values = [line[name] if group == "training" else line[group][name] for line in lines]
        assert [event.step for event in events] == [line["update"] for line in lines]
        assert len(events) == 3 and [event.value for event in events] == pytest.approx(values)
