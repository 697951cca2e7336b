"""Peak memory of one run above what was held before.

On the CPU it is the resident memory of the process, as Linux counts it: it sees whatever anyone
allocates, torch, DGL or a kernel of its own. Freed pages are handed back first, and the peak is
set back to the present (`/proc/self/clear_refs`). What glibc's allocator keeps of freed blocks
must not count: the run has a thread, and with it an allocator's arena, of its own, and blocks go
back to the system as they are freed. Elsewhere than on Linux with glibc nothing is measured.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

_SELF = Path("/proc/self")
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4  # parameters of mallopt
_MANY = 1 << 16
_KIB, _MIB = 1 << 10, 1 << 20


def peak_bytes(run: Callable[[], object], device: torch.device) -> int | None:
    """Most bytes held at once by a run, results included; `None` where that is unknown.

    What a first run makes and keeps does not count.
    """
    gc.collect(1)  # what the last runs may have left; all there is would take much longer
    if device.type == "cuda":
        run()
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        run()
        torch.cuda.synchronize(device)
        return int(torch.cuda.max_memory_allocated(device) - before)
    if not _pages_can_be_counted():
        return None
    _set_allocator(64 * _KIB, 64 * _KIB, own_pages=_MANY)
    try:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(_resident_peak, run).result()
    finally:
        settle_allocator()


def settle_allocator() -> None:
    """Bring glibc to where it comes by itself in a program that has freed a large tensor.

    Blocks of 32 MiB and more have pages of their own, and go back to the system when they are
    freed; smaller ones are kept. Else times would depend on what ran before.
    """
    if _pages_can_be_counted():
        _set_allocator(32 * _MIB, 64 * _MIB, own_pages=_MANY)


def free_bytes(device: torch.device) -> int | None:
    """Memory that can still be had, where that is known."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        found = re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())
        return int(found[1]) * _KIB if found else None
    except OSError:
        return None


def _pages_can_be_counted() -> bool:
    return os.access(_SELF / "clear_refs", os.W_OK) and hasattr(ctypes.CDLL(None), "malloc_trim")


def _set_allocator(own: int, top: int, *, own_pages: int) -> None:
    """From what size on a block has pages of its own, how much is kept at an arena's end, and how
    many blocks have pages of their own at most."""
    libc = ctypes.CDLL(None)
    libc.mallopt(_MMAP_MAX, own_pages)
    libc.mallopt(_MMAP_THRESHOLD, own)
    libc.mallopt(_TRIM_THRESHOLD, top)


def _resident_peak(run: Callable[[], object]) -> int:
    run()
    ctypes.CDLL(None).malloc_trim(0)
    (_SELF / "clear_refs").write_text("5")
    before = _resident("VmRSS")
    run()
    return max(0, _resident("VmHWM") - before)


def _resident(field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+)", (_SELF / "status").read_text())
    assert found is not None  # Linux has had both fields for long
    return int(found[1]) * _KIB
