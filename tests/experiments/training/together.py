"""Several processes of one test."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import multiprocessing


def run_together(function: Callable[..., None], folder: Path, *args: Any, count: int = 2) -> None:
    """Call a function in processes of one group, each with a copy of what is here.

    Raise what one of them raises. The group meets at a file in the folder.
    """
    store = f"file://{folder}/store"
    with warnings.catch_warnings():
        # Python 3.12 warns of threads, such as those of torch; those that sleep do no harm.
        warnings.simplefilter("ignore", DeprecationWarning)
        multiprocessing.start_processes(
            _run, (function, store, count, args), nprocs=count, start_method="fork"
        )


def _run(rank: int, function: Callable[..., None], store: str, count: int, args: Any) -> None:
    torch.set_num_threads(1)  # a fork waits for ever for the threads of its parent
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=count)
    function(*args)
    dist.destroy_process_group()
