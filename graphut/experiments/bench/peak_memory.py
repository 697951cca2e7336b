"""Measurement of the peak memory that a function adds to the memory in use.

On a CPU this is the resident memory of the process, and needs Linux with glibc.
"""

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
    """Return the peak memory of a call of `run` in bytes, with its results, or `None` if unknown.

    `run` is called twice. Memory that the first call allocates and keeps is not counted.
    """
    gc.collect(1)  # a collection of all generations takes much longer
    if device.type == "cuda":
        run()
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        in_use = torch.cuda.memory_allocated(device)
        run()
        torch.cuda.synchronize(device)
        return int(torch.cuda.max_memory_allocated(device) - in_use)
    if not _is_supported():
        return None
    # glibc keeps freed blocks, which would hide later allocations. Run in a new thread, which has a
    # new arena, and return freed blocks to the system immediately.
    _set_allocator(64 * _KIB, 64 * _KIB)
    try:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(_resident_peak, run).result()
    finally:
        settle_allocator()


def settle_allocator() -> None:
    """Set glibc's allocator to the state that it reaches after a large tensor was freed.

    `peak_bytes` changes these settings, and glibc then no longer adapts them.
    """
    if _is_supported():
        _set_allocator(32 * _MIB, 64 * _MIB)


def free_bytes(device: torch.device) -> int | None:
    """Return the free memory of a device in bytes, or `None` if it is unknown."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        return _KIB * _kilobytes(Path("/proc/meminfo"), "MemAvailable")
    except OSError:
        return None


def _is_supported() -> bool:
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
    in_use = _kilobytes(_PROCESS / "status", "VmRSS")
    run()
    return _KIB * max(0, _kilobytes(_PROCESS / "status", "VmHWM") - in_use)


def _kilobytes(path: Path, field: str) -> int:
    match = re.search(rf"{field}:\s+(\d+)", path.read_text())
    if match is None:
        raise OSError(f"{path} has no {field}")
    return int(match[1])
