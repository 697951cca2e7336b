"""Shared by the benchmarks: timing in turns, the table of results, errors and padding."""

import shlex
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.utils.benchmark import timer  # waits for the GPU

from graphut.experiments.records import append_rows, describe_machine

Row = dict[str, Any]  # the figures of one contender, by column of the table of results
_COLUMNS = ("ms", "ns_per_edge", "gflop_s", "value", "peak_mib", "error")


def parse_options(doc: str, repeats: int = 9, **defaults: Any) -> Namespace:
    """Parse an option for each default, of its type; a tuple takes several values."""
    parser = ArgumentParser(description=doc, formatter_class=RawDescriptionHelpFormatter)
    for name, default in {"repeats": repeats, "results": "", **defaults}.items():
        flag, several = "--" + name.replace("_", "-"), isinstance(default, tuple)
        if default is False:
            parser.add_argument(flag, action="store_true")
        else:
            kind, nargs = type(default[0] if several else default), "+" if several else None
            parser.add_argument(flag, type=kind, default=default, nargs=nargs)
    return parser.parse_args()


def time_in_turns(
    workload: str, runs: Mapping[str, Any], repeats: int, before: Any = None, **columns: Any
) -> list[Row]:
    """Time functions, which take turns for `repeats` rounds; return a row for each.

    A function first runs for 50 ms, to fill the caches; or `before` is called instead.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(repeats + 1):  # the first call compiles and allocates, and does not count
        for name, run in runs.items():
            end = timer() + 0.05 * (number > 0 and times[name][0] < 500)
            while before is None and timer() < end:
                run()
            if before is not None:
                before()
            start = timer()
            result = run()
            times[name].append(1e3 * (timer() - start))
            del result  # freeing it is not timed
    rows = []
    for name, (_, *ms) in times.items():
        rows.append({"workload": workload, "contender": name, "ms": median(ms), **columns})
    return rows


def report(bench: str, groups: Iterable[list[Row]], results: str, device: str = "cpu") -> None:
    """Print a table for each workload, with speeds relative to the first contender; save rows."""
    origin = {**describe_machine(torch.device(device)), "command": shlex.join(sys.argv)}
    origin["vectors"] = torch.backends.cpu.get_cpu_capability()
    for rows in groups:  # as soon as they are measured
        firsts: dict[str, Row] = {}
        for row in rows:
            if (first := firsts.setdefault(row["workload"], row)) is row:
                print(f"\n{row['workload']}")
            found = [f"{name} {row[name]:.4g}" for name in _COLUMNS if name in row]
            found += [f"speed {first['ms'] / row['ms']:.2f}"] if "ms" in row else []
            print(f"{row['contender']:26} {', '.join(found)}", flush=True)
        if results:
            append_rows(results, [{"bench": bench, **row, **origin} for row in rows])


def relative_error(found: Sequence[Tensor], exact: Sequence[Tensor], limit: float = 1e-5) -> float:
    """Return the relative error of the first tensor or, if larger, of all others together."""
    wide = [[x.detach().double().flatten() for x in each] for each in (found, exact)]
    pairs = [[part[:1] for part in wide], [part[1:] for part in wide]][: len(exact)]
    joined = (map(torch.cat, pair) for pair in pairs)
    errors = [float((a - b).norm() / b.norm()) for a, b in joined]
    if not all(error <= limit for error in errors):
        raise ArithmeticError(f"wrong by {max(errors):.0e}")
    return max(errors)


def draw_lengths(shape: str, seed: int = 0) -> Tensor:
    """Return random lengths; "64x10-60" is 64 sentences of 10 to 60 tokens."""
    sentences, _, lengths = shape.partition("x")
    low, _, high = lengths.partition("-")
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(int(low), int(high or low) + 1, (int(sentences),), generator=generator)


def present(lengths: Tensor) -> Tensor:
    """Return a mask of the positions that are not padding, `(batch, longest)`."""
    return torch.arange(int(lengths.max()), device=lengths.device) < lengths[:, None]


def pad(rows: Tensor, mask: Tensor) -> Tensor:
    """Return the rows of all sentences, `(N, ...)`, as `(batch, longest, ...)` with zeros."""
    table = rows.new_zeros(*mask.shape, *rows.shape[1:])
    table[mask] = rows
    return table


def attention_mask(rows: Tensor, sources: Tensor, edges: Sequence[Tensor]) -> Tensor:
    """Return the mask of padded attention; padded queries attend to all sources."""
    (sentence, line), column = rows.nonzero()[edges[0]].T, sources.nonzero()[edges[1], 1]
    mask = sources[:, None] & ~rows[..., None]
    mask[sentence, line, column] = True
    return (mask[:, :1] if bool((mask == mask[:, :1]).all()) else mask)[:, None]
