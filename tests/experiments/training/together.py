import warnings
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import multiprocessing


def run_together(function: Callable[[], None], folder: Path, count: int = 2) -> None:
    """Call a function in each process of a new group, which are forks of this process.

    Raise an error if one of them does. The processes find each other by a file in the folder.
    """
    store = f"file://{folder}/store"
    with warnings.catch_warnings():
        # Python 3.12 warns about threads; idle threads, such as torch's, do no harm.
        warnings.simplefilter("ignore", DeprecationWarning)
        multiprocessing.start_processes(
            _run, (function, store, count), nprocs=count, start_method="fork"
        )


def _run(rank: int, function: Callable[[], None], store: str, count: int) -> None:
    torch.set_num_threads(1)  # the threads of the parent do not exist in a fork
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=count)
    function()
    dist.destroy_process_group()
