"""Data-parallel training in several processes, which `torchrun` starts.

Without a process group, all functions behave as for a single process. In a process group, every
process must call the functions that exchange data.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

T = TypeVar("T")

# A process may wait for hours while another one reads data or evaluates. When a process ends, the
# others notice it immediately, without a timeout.
_TIMEOUT = timedelta(days=1)


@contextmanager
def process_group() -> Iterator[None]:
    """Context manager that runs its block in the process group that `torchrun` has started, if any.

    Only the first process prints. GPUs communicate by NCCL, CPUs by gloo.
    """
    if os.environ.get("WORLD_SIZE", "1") in ("", "1"):
        barrier()  # in a group of the caller: nothing is written before all have read the options
        yield
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    with open(os.devnull, "w") as nowhere:
        dist.init_process_group(timeout=_TIMEOUT)
        with redirect_stdout(sys.stdout if is_first() else nowhere):
            yield
        # Not after an error: the other processes notice that this one ends.
        dist.destroy_process_group()


def rank() -> int:
    """Return the index of this process, counted from 0."""
    return dist.get_rank() if dist.is_initialized() else 0


def num_processes() -> int:
    """Return the number of processes."""
    return dist.get_world_size() if dist.is_initialized() else 1


def is_first() -> bool:
    """Return whether this is process 0, the only one that writes files and prints."""
    return rank() == 0


def barrier() -> None:
    """Wait until all processes have called this function."""
    if num_processes() > 1:
        dist.barrier()


def all_reduce_sum(tensor: Tensor) -> Tensor:
    """Sum a tensor over all processes, in place, and return it."""
    if num_processes() > 1:
        dist.all_reduce(tensor)
    return tensor


def shard(items: list[T]) -> list[T]:
    """Return the items that this process handles: with two processes, every second item."""
    return items[rank() :: num_processes()]


def all_gather(results: list[T]) -> list[T]:
    """Merge the results of all processes, in the order of the list that `shard` divided."""
    if num_processes() == 1:
        return results
    parts: list[Any] = [None] * num_processes()
    dist.all_gather_object(parts, results)
    merged: list[Any] = [None] * sum(map(len, parts))
    for first, part in enumerate(parts):
        merged[first :: len(parts)] = part
    return merged
