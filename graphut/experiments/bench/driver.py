"""The driver of all benchmarks: measure time and memory of contenders, and print tables."""

import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from math import hypot, inf
from operator import itemgetter
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.benchmark import timer  # waits for the GPU

from graphut.experiments.bench.options import parse_shape
from graphut.experiments.bench.peak_memory import peak_bytes, settle_allocator
from graphut.experiments.tables import plain_table, three_digits

Row = dict[str, Any]  # the figures of one contender, by column of the table of results
Contender = Callable[[], object]

CPU = torch.device("cpu")
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 2e-2}
"""The largest relative error of a correct result, by data type."""
WARM_UP = 0.05  # seconds
LONG = 0.5  # seconds; longer contenders need no warm-up
OTHER_BYTES = 64 << 20  # larger than the caches of most processors


def measure(
    workload: str,
    contenders: Mapping[str, Contender],
    *,
    repeats: int,
    device: torch.device,
    warm_up: float = WARM_UP,
    cold: bool = False,
) -> list[Row]:
    """Measure time and peak memory of functions, and return one row of the table for each.

    The contenders take turns for `repeats` rounds, so that a slow phase of the machine affects all
    of them. In each round, a contender whose call takes less than half a second first runs for
    `warm_up` seconds, to fill the caches; with `cold`, 64 MB of other data are written instead.
    """
    settle_allocator()
    say(f"timing {', '.join(contenders)}")
    other = torch.zeros(OTHER_BYTES if cold else 0, dtype=torch.uint8, device=device)
    first = {name: _seconds(run) for name, run in contenders.items()}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(1, repeats + 1):
        say(f"round {number} of {repeats}")
        for name, run in contenders.items():
            if cold:
                other.add_(1)
            elif first[name] < LONG:
                end = timer() + warm_up
                while timer() < end:  # a GPU would otherwise queue calls for much longer
                    run()
            times[name].append(_seconds(run))
    rows = []
    for name, run in contenders.items():
        lower, median, upper = (1e3 * np.percentile(times[name], [25, 50, 75])).tolist()
        peak = peak_bytes(run, device)
        rows.append(
            {
                "workload": workload,
                "contender": name,
                "ms": median,
                "lower_ms": lower,
                "upper_ms": upper,
                "peak_mib": None if peak is None else peak / 2**20,
            }
        )
    return rows


def measure_equal(
    workload: str,
    contenders: Mapping[str, Contender],
    errors: Mapping[str, float],
    *,
    repeats: int,
    device: torch.device = CPU,
    limits: Mapping[str, float] = MappingProxyType({}),
) -> list[Row]:
    """Measure contenders, as `measure` does, unless the error of one of them is above its limit.

    The rows then have a note instead of times. `errors` are relative to a contender without error.
    The default of `limits` is 1e-5, for float32.
    """
    usual = TOLERANCE[torch.float32]
    inexact = [name for name in errors if errors[name] > limits.get(name, usual)]
    if inexact:
        note = f"{inexact[0]} is wrong by {errors[inexact[0]]:.0e}"
        rows = [{"workload": workload, "contender": name, "note": note} for name in contenders]
    else:
        rows = measure(workload, contenders, repeats=repeats, device=device)
    return [{**row, "error": errors.get(row["contender"])} for row in rows]


def _seconds(run: Contender) -> float:
    start = timer()
    result = run()
    seconds: float = timer() - start
    del result  # freeing it is not timed
    return seconds


def say(text: str) -> None:
    """Print a line about the progress of a benchmark to standard error."""
    print(text, file=sys.stderr, flush=True)


def largest_error(results: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """Return the relative error of the output or of the gradients, whichever is larger.

    The first tensor is the output. The gradients (the other tensors) have one common error, since
    one of them may be zero except for rounding. NaN counts as infinity.
    """
    differences, norms = [], []
    for a, b in zip(results, expected, strict=True):
        if a.shape != b.shape:
            raise ValueError(f"a result has shape {tuple(a.shape)}, not {tuple(b.shape)}")
        wide = b.double()
        differences.append((a.double() - wide).norm().item())
        norms.append(wide.norm().item())
    errors = [
        hypot(*differences[part]) / max(hypot(*norms[part]), 1e-12)
        for part in (slice(1), slice(1, None))
    ]
    return max(error if error == error else inf for error in errors)


def sentence_lengths(shape: str) -> Tensor:
    """Return random lengths, with a fixed seed; "64x10-60" is 64 sentences of 10 to 60 tokens."""
    sentences, shortest, longest = parse_shape(shape)
    generator = torch.Generator().manual_seed(0)
    return torch.randint(shortest, longest + 1, (sentences,), generator=generator)


_QUARTILES = ("lower_ms", "upper_ms")
_COLUMNS: Mapping[str, tuple[str, Callable[[Any], str]]] = {
    "ms": ("ms", three_digits),
    "quartiles": ("quartiles", str),
    "peak_mib": ("peak MiB", "{:.1f}".format),
    "gflop_s": ("GFLOP/s", three_digits),
    "matmul_share": ("of matmul", "{:.0%}".format),
    "ns_per_edge": ("ns/edge", three_digits),
    "relative_flops": ("FLOPs", "{:.1%}".format),
    "value": ("value", three_digits),
    "error": ("error", "{:.0e}".format),
}


def rows_text(rows: Sequence[Row], baselines: Sequence[str] = ()) -> str:
    """Format rows as one table for each workload, with a column of speed-ups over each baseline."""
    groups = groupby(rows, key=itemgetter("workload"))
    return "\n\n".join(f"{workload}\n{_table([*group], baselines)}" for workload, group in groups)


def _table(rows: Sequence[Row], baselines: Sequence[str]) -> str:
    rows = [
        {**row, "quartiles": "{}-{}".format(*(three_digits(row[k]) for k in _QUARTILES))}
        if row.get("lower_ms") is not None
        else row
        for row in rows
    ]
    columns = [name for name in _COLUMNS if any(row.get(name) is not None for row in rows)]
    times = {row["contender"]: row["ms"] for row in rows if row.get("ms") is not None}
    present = [name for name in baselines if name in times]
    head = ["contender", *(_COLUMNS[name][0] for name in columns)]
    head += [f"x {name}" for name in present]
    lines = []
    for row in rows:
        if row.get("note"):
            lines.append([row["contender"], row["note"]])
            continue
        cells = ["" if row.get(name) is None else _COLUMNS[name][1](row[name]) for name in columns]
        speeds = [three_digits(times[name] / row["ms"]) for name in present]
        lines.append([row["contender"], *cells, *speeds])
    return plain_table(head, lines)
