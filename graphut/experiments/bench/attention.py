"""Which backend is best for a topology on this machine."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from graphut.attention import BACKENDS, edge_attention
from graphut.experiments.bench.contender import Contender, Entry, Prepare, UnavailableError
from graphut.experiments.bench.gate import TOLERANCE, largest_error, reference
from graphut.experiments.bench.machine import MATMUL_FLOPS, dated_machine, matmul
from graphut.experiments.bench.memory import peak_bytes
from graphut.experiments.bench.peers import PEERS
from graphut.experiments.bench.problem import AttentionProblem
from graphut.experiments.bench.report import AttentionReport, Row
from graphut.experiments.bench.timing import interleaved

ORACLE = "dense"  # judges, and does not take part
_MATMUL = "matrix product"


def backend_names() -> list[str]:
    """The backends that take part."""
    return [name for name in BACKENDS if name != ORACLE]


def bench_attention(
    problem: AttentionProblem,
    *,
    backends: Sequence[str] | None = None,
    peers: Sequence[str] | None = None,
    repeats: int = 9,
) -> AttentionReport:
    """Compare, time and weigh all ways to compute one attention call.

    Each contender's output and gradients are held against a float64 reference first; one that is
    wrong, or cannot run, gets a reason in place of figures. The others are run in turns, with a
    product of matrices as the measure of what the machine can do.

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

    Examples
    --------
    >>> from graphut.experiments.bench import Sizes
    >>> from graphut.topology import Causal
    >>> problem = AttentionProblem(topology=Causal(), sizes=Sizes(2, 3, 5), dim=8, heads=2)
    >>> report = bench_attention(problem, backends=["torch"], peers=["padded"], repeats=1)
    >>> [row.name for row in report.rows], report.best
    (['torch', 'padded'], 'torch')
    """
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {repeats}")
    backends = backend_names() if backends is None else backends
    prepare: dict[str, Prepare] = {name: _backend(name) for name in backends}
    prepare |= {name: PEERS[name] for name in (PEERS if peers is None else peers)}
    expected = reference(problem)
    entries: dict[str, Entry] = {}
    rows = {name: Row(name, backend=name in backends) for name in prepare}
    for name, make in prepare.items():
        entry = _admitted(rows[name], problem, make, expected)
        if entry is not None:
            entries[name] = entry
    del expected
    speed = _time(rows, entries, problem, repeats)
    return AttentionReport(problem, list(rows.values()), speed, dated_machine(problem.device))


def _backend(name: str) -> Prepare:
    def prepare(problem: AttentionProblem) -> Contender:
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

        return Contender(attend)

    return prepare


def _admitted(
    row: Row, problem: AttentionProblem, prepare: Prepare, expected: Sequence[Tensor]
) -> Entry | None:
    """A contender that is there, runs, and is right; or the reason in its row."""
    try:
        entry = Entry(problem, prepare(problem))
        row.error = largest_error(entry.packed(), expected)
    except UnavailableError as reason:
        row.reason = str(reason)
        return None
    except Exception as failure:  # whatever a backend raises, the others go on
        row.reason = f"cannot run: {str(failure).strip().split(chr(10))[0]}"
        return None
    if row.error <= TOLERANCE[problem.dtype]:
        return entry
    row.reason = f"wrong by {row.error:.0e}" if math.isfinite(row.error) else "wrong: not a number"
    return None


def _time(
    rows: dict[str, Row], entries: dict[str, Entry], problem: AttentionProblem, repeats: int
) -> float:
    """Fill in times and memory; returns the matrix product's operations a second."""
    device = problem.device
    times = interleaved({**entries, _MATMUL: matmul(device)}, repeats, device)
    for name, entry in entries.items():
        rows[name].times = times[name]
        rows[name].peak = peak_bytes(entry, device)
    return MATMUL_FLOPS / times[_MATMUL].median
