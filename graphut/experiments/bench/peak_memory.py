"""Peak memory of one run above what was held before.

On the CPU it is the resident memory of the process, as Linux counts it: it sees what torch, DGL and
a kernel allocate. Freed pages are handed back first, and the peak is set back to the present
(`/proc/self/clear_refs`). Elsewhere than on Linux with glibc nothing is measured.
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

_PROCESS = Path("/proc/self")
_KIB, _MIB = 1 << 10, 1 << 20
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # parameters of mallopt


def peak_bytes(run: Callable[[], object], device: torch.device) -> int | None:
    """Return the most bytes held at once by a run, results included; `None` if that is unknown.

    What a first run makes and keeps does not count.
    """
    gc.collect(1)  # garbage of the last runs; collecting all generations would take much longer
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
    # Blocks that glibc keeps after they are freed must not count: the run has a thread, and so an
    # arena, of its own, and blocks go back to the system at once. With glibc's own settings the
    # same calls had peaks of 0.4 and 4.9 MiB in two processes, and of 6.6 in both with these.
    _set_allocator(64 * _KIB, 64 * _KIB)
    try:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(_resident_peak, run).result()
    finally:
        settle_allocator()


def settle_allocator() -> None:
    """Give glibc the settings at which it arrives in a program that has freed a large tensor.

    Blocks of 32 MiB and more go back to the system when they are freed; smaller ones are kept.
    After `peak_bytes` glibc does not adapt them itself, and times would depend on what ran before.
    """
    if _pages_can_be_counted():
        _set_allocator(32 * _MIB, 64 * _MIB)


def free_bytes(device: torch.device) -> int | None:
    """Return the bytes that can still be allocated; `None` if that is unknown."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        return _KIB * _kilobytes(Path("/proc/meminfo"), "MemAvailable")
    except OSError:
        return None


def _pages_can_be_counted() -> bool:
    writable = os.access(_PROCESS / "clear_refs", os.W_OK)
    return writable and hasattr(ctypes.CDLL(None), "malloc_trim")


def _set_allocator(mmap_threshold: int, trim_threshold: int) -> None:
    libc = ctypes.CDLL(None)
    libc.mallopt(_MMAP_THRESHOLD, mmap_threshold)
    libc.mallopt(_TRIM_THRESHOLD, trim_threshold)


def _resident_peak(run: Callable[[], object]) -> int:
    run()
    ctypes.CDLL(None).malloc_trim(0)
    (_PROCESS / "clear_refs").write_text("5")
    before = _kilobytes(_PROCESS / "status", "VmRSS")
    run()
    return _KIB * max(0, _kilobytes(_PROCESS / "status", "VmHWM") - before)


def _kilobytes(path: Path, field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+)", path.read_text())
    if found is None:
        raise OSError(f"{path} has no {field}")
    return int(found[1])
