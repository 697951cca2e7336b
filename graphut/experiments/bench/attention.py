"""The benchmark of one attention call: the best backend for a topology on this machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from graphut.attention import BACKENDS, edge_attention
from graphut.experiments.bench.attention_report import AttentionReport, AttentionRow
from graphut.experiments.bench.correctness import TOLERANCE, largest_error, reference
from graphut.experiments.bench.implementations import (
    Implementation,
    Prepare,
    PreparedRun,
    UnavailableError,
)
from graphut.experiments.bench.peak_memory import peak_bytes
from graphut.experiments.bench.peers import PEERS
from graphut.experiments.bench.timing import interleaved
from graphut.experiments.bench.workloads import AttentionProblem, check_repeats
from graphut.experiments.machine import dated_machine

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
) -> AttentionReport:
    """Compare results, time and memory of all ways to compute one attention call.

    Output and gradients of each implementation are compared with a float64 reference first. One
    that is wrong, or cannot run, gets a reason in place of figures. The others are run in turns,
    with a product of matrices as the measure of what the machine can do.

    Parameters
    ----------
    problem : AttentionProblem
        The call.
    backends : sequence of str, optional
        Names from `backend_names()`; all of them if not given.
    peers : sequence of str, optional
        Names from `graphut.experiments.bench.PEERS`; all of them if not given.
    repeats : int
        Timed rounds.

    Raises
    ------
    ValueError
        If there is no timed round.

    Examples
    --------
    >>> from graphut.experiments.bench import Sizes
    >>> from graphut.topology import Causal
    >>> problem = AttentionProblem(topology=Causal(), sizes=Sizes(2, 3, 5), dim=8, heads=2)
    >>> report = bench_attention(problem, backends=["torch"], peers=["padded"], repeats=1)
    >>> [row.name for row in report.rows], report.best
    (['torch', 'padded'], 'torch')
    """
    check_repeats(repeats)
    backends = backend_names() if backends is None else backends
    prepare: dict[str, Prepare] = {name: _backend(name) for name in backends}
    prepare |= {name: PEERS[name] for name in (PEERS if peers is None else peers)}
    expected = reference(problem)
    runs: dict[str, PreparedRun] = {}
    rows = {name: AttentionRow(name, backend=name in backends) for name in prepare}
    for name, make in prepare.items():
        run = _correct_run(rows[name], problem, make, expected)
        if run is not None:
            runs[name] = run
    del expected
    device = problem.device
    times = interleaved({**runs, _MATMUL: matrix_product(device)}, repeats, device)
    for name, run in runs.items():
        rows[name].times = times[name]
        rows[name].peak = peak_bytes(run, device)
    speed = 2 * _MATMUL_SIDE**3 / times[_MATMUL].median
    return AttentionReport(problem, list(rows.values()), speed, dated_machine(device))


def matrix_product(device: torch.device) -> Callable[[], object]:
    """Return a product of two square matrices of 1024, float32: what the machine can do."""
    a, b = torch.randn(2, _MATMUL_SIDE, _MATMUL_SIDE, device=device)
    return lambda: torch.mm(a, b)


def _backend(name: str) -> Prepare:
    def prepare(problem: AttentionProblem) -> Implementation:
        def attend(query: Tensor, key: Tensor, value: Tensor, *bias: Tensor) -> Tensor:
            return edge_attention(
                problem.layout,
                query,
                key,
                value,
                edge_bias=bias[0] if bias else None,
                frontier=problem.frontier,
                backend=name,
            )

        return Implementation(attend)

    return prepare


def _correct_run(
    row: AttentionRow, problem: AttentionProblem, prepare: Prepare, expected: Sequence[Tensor]
) -> PreparedRun | None:
    """Return an implementation that is there, runs and is right, or write the reason to its row."""
    try:
        run = PreparedRun(problem, prepare(problem))
        row.error = largest_error(run.packed(), expected)
    except UnavailableError as reason:
        row.reason = str(reason)
        return None
    except Exception as failure:  # whatever one implementation raises, the others go on
        row.reason = f"cannot run: {str(failure).strip().split(chr(10))[0]}"
        return None
    if row.error <= TOLERANCE[problem.dtype]:
        return run
    row.reason = f"wrong by {row.error:.0e}" if math.isfinite(row.error) else "wrong: not a number"
    return None
