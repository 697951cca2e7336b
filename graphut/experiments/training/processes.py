"""The processes that train a model together, started by `torchrun`; one alone needs none of this.

In a process group, functions that exchange something are to be called by all processes alike.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from datetime import timedelta
from itertools import chain, zip_longest
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

T = TypeVar("T")

# One process may read data for hours, or evaluate, while others wait. That one has ended is noticed
# without a limit of time.
_PATIENCE = timedelta(days=1)


@contextmanager
def joined_processes() -> Iterator[None]:
    """Join the processes that `torchrun` has started with this one, if it has started several.

    Only the first one prints. GPUs talk through NCCL, and CPUs through gloo. Raise
    `ConnectionError` if another process ends before its time.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    with noticing_ends(), open(os.devnull, "w") as nowhere:
        dist.init_process_group(timeout=_PATIENCE)
        with redirect_stdout(sys.stdout if is_first() else nowhere):
            yield
        # After an error nothing is left to agree on: the others notice that this process ends.
        dist.destroy_process_group()


def rank() -> int:
    """Return the number of this process, from 0."""
    return dist.get_rank() if dist.is_initialized() else 0


def num_processes() -> int:
    """Return how many processes there are."""
    return dist.get_world_size() if dist.is_initialized() else 1


def is_first() -> bool:
    """Return whether this is the process that writes and prints."""
    return rank() == 0


def wait_for_all() -> None:
    """Wait until all processes are here."""
    if num_processes() > 1:
        dist.barrier()


def summed(own: Tensor) -> Tensor:
    """Return the sum of a tensor over all processes; it may be in place."""
    if num_processes() > 1:
        dist.all_reduce(own)
    return own


def dealt(items: list[T]) -> list[T]:
    """Return the part of this process: with two, every other item."""
    return items[rank() :: num_processes()]


def collected(own: list[T]) -> list[T]:
    """Return what the processes made of the items that were `dealt` to them, in order."""
    if num_processes() == 1:
        return own
    parts: list[Any] = [None] * num_processes()
    dist.all_gather_object(parts, own)
    missing = object()  # the last round may not go round
    rounds = chain.from_iterable(zip_longest(*parts, fillvalue=missing))
    return [item for item in rounds if item is not missing]


@contextmanager
def noticing_ends() -> Iterator[None]:
    """Raise `ConnectionError` in place of torch's error that another process does not answer."""
    try:
        yield
    except RuntimeError as error:
        # torch has a class for the errors of NCCL, and none for those of gloo.
        if not isinstance(error, dist.DistError) and "gloo" not in str(error):
            raise
        raise ConnectionError(
            f"process {rank()} stops, since another one has: its message says why; what was saved "
            "can be resumed, on any number of processes"
        ) from error
