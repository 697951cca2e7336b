"""The model that a run has to offer."""

from __future__ import annotations

import shlex

import torch

from graphut.experiments.training import Run
from graphut.experiments.training.log import read_metrics
from graphut.experiments.training.trainer import METRICS
from graphut.models.base import AdaptiveModel


def best_model(run: Run, device: torch.device) -> AdaptiveModel:
    """The best model of a run so far, on a device.

    Raises
    ------
    ValueError
        If no epoch is done yet: what is in the folder then has learned nothing.
    """
    if not read_metrics(run.folder / METRICS):
        raise ValueError(
            f"no epoch of the run in {run.folder} is done, so that there is no model yet: graphut "
            f"train {run.task_name} --out {shlex.quote(str(run.folder))} --resume"
        )
    return run.model().to(device)
