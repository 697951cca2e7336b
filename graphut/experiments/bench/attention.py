"""The benchmark of one attention call: the best backend for a topology on this machine."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from graphut.attention import BACKENDS, edge_attention
from graphut.experiments.bench.implementations import (
    TOLERANCE,
    Implementation,
    Prepare,
    PreparedRun,
    UnavailableError,
    largest_error,
    reference,
)
from graphut.experiments.bench.peak_memory import peak_bytes
from graphut.experiments.bench.peers import PEERS
from graphut.experiments.bench.report import Report
from graphut.experiments.bench.timing import Times, interleaved
from graphut.experiments.bench.workloads import AttentionProblem
from graphut.experiments.machine import dated_machine

_log = logging.getLogger(__name__)
# All are compared with these. DGL's operators are a backend and a peer in one.
_COMPARED_WITH = ("dgl", *PEERS)
_REFERENCE = "dense"  # the reference of all others takes no part itself
_MATMUL = "matrix product"
_MATMUL_SIDE = 1024


def backend_names() -> list[str]:
    """Return the names of the backends that take part."""
    return [name for name in BACKENDS if name != _REFERENCE]


def bench_attention(
    problem: AttentionProblem,
    *,
    backends: Sequence[str] | None = None,
    peers: Sequence[str] | None = None,
    repeats: int = 9,
    cold: bool = False,
) -> Report:
    """Compare results, time and memory of all ways to compute one attention call.

    Output and gradients of each implementation are compared with a float64 reference first. One
    that is wrong, or cannot run, gets a reason in place of figures. The others are run in turns,
    `repeats` times, with a product of matrices as the measure of what the machine can do.

    `backends` are names from `backend_names()`, `peers` names from `PEERS`; all of them if not
    given. With `cold`, other work on 64 MB comes before each call: its data is in no cache. The
    report is what a JSON file of it holds: seconds, bytes, operations a second.

    Examples
    --------
    >>> from graphut.experiments.bench.workloads import Sizes
    >>> from graphut.topology import Causal
    >>> problem = AttentionProblem(topology=Causal(), sizes=Sizes(2, 3, 5), dim=8, heads=2)
    >>> report = bench_attention(problem, backends=["torch"], peers=["padded"], repeats=1)
    >>> [row["name"] for row in report["rows"]], report["best"]
    (['torch', 'padded'], 'torch')
    """
    backends = backend_names() if backends is None else backends
    prepare: dict[str, Prepare] = {name: partial(prepare_backend, name) for name in backends}
    prepare |= {name: PEERS[name] for name in (PEERS if peers is None else peers)}
    expected = reference(problem)
    runs: dict[str, PreparedRun] = {}
    rows = []
    for name, make in prepare.items():
        _log.info("comparing %s with a float64 reference", name)
        run, row = _checked(problem, make, expected)
        rows.append({"name": name, "backend": name in backends, **row})
        if run is not None:
            runs[name] = run
    del expected
    device = problem.device
    times = interleaved({**runs, _MATMUL: matrix_product(device)}, repeats, device, cold=cold)
    matmul_speed = 2 * _MATMUL_SIDE**3 / times.pop(_MATMUL)["median"]
    for row in rows:
        if row["name"] in runs:
            row.update(_figures(row["name"], problem.flops, times, matmul_speed))
            row["peak_bytes"] = peak_bytes(runs[row["name"]], device)
    return {
        "bench": "attention",
        "machine": dated_machine(device),
        "problem": problem.to_dict(),
        "cold": cold,
        "matmul_flops_per_second": matmul_speed,
        "best": best_backend(rows),
        "rows": rows,
    }


def best_backend(rows: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the backend of the lowest median time; `None` if no backend was timed."""
    timed = [row for row in rows if row["backend"] and "seconds" in row]
    names = [row["name"] for row in sorted(timed, key=lambda row: row["seconds"]["median"])]
    return names[0] if names else None


def matrix_product(device: torch.device) -> Callable[[], object]:
    """Return a product of two square matrices of 1024, float32: what the machine can do."""
    a, b = torch.randn(2, _MATMUL_SIDE, _MATMUL_SIDE, device=device)
    return lambda: torch.mm(a, b)


def prepare_backend(name: str, problem: AttentionProblem) -> Implementation:
    """Return a backend of graphut."""
    layout, frontier = problem.layout, problem.frontier

    def attend(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None = None) -> Tensor:
        return edge_attention(
            layout, query, key, value, edge_bias=bias, frontier=frontier, backend=name
        )

    return Implementation(attend)


def _checked(
    problem: AttentionProblem, prepare: Prepare, expected: Sequence[Tensor]
) -> tuple[PreparedRun | None, dict[str, Any]]:
    """Return an implementation if it is there, runs and is right; its error, or the reason."""
    try:
        run = PreparedRun(problem, prepare(problem))
        error = largest_error(run.packed(), expected)
    except UnavailableError as failure:
        return None, {"error": None, "reason": str(failure)}
    except Exception as failure:  # whatever one implementation raises, the others go on
        first_line = str(failure).strip().split("\n")[0]
        return None, {"error": None, "reason": f"cannot run: {first_line}"}
    if error <= TOLERANCE[problem.dtype]:
        return run, {"error": error, "reason": None}
    if not math.isfinite(error):
        return None, {"error": None, "reason": "wrong: not a number"}
    return None, {"error": error, "reason": f"wrong by {error:.0e}"}


def _figures(
    name: str, flops: int, times: Mapping[str, Times], matmul_speed: float
) -> dict[str, Any]:
    median = times[name]["median"]
    return {
        "seconds": times[name],
        "flops_per_second": flops / median,
        "share_of_matmul": flops / median / matmul_speed,
        "times_faster_than": {
            other: times[other]["median"] / median for other in _COMPARED_WITH if other in times
        },
    }
