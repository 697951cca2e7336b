"""The benchmark of one attention call, by graphut's backends and other implementations."""

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from graphut.attention import BACKENDS
from graphut.attention.kernel_library import timed_phases
from graphut.experiments.bench.attention_workload import REFERENCE, AttentionWorkload, Prepare
from graphut.experiments.bench.driver import TOLERANCE, Contender, Row, largest_error, measure, say
from graphut.experiments.bench.peers import PEERS

IN_FLOAT32 = "float32"  # the contender of a call in bfloat16: the same call in float32
BASELINES = ("dgl", *PEERS, IN_FLOAT32)
_MATMUL = "matrix product"
_MATMUL_SIDE = 1024


def bench_attention(
    workloads: Sequence[AttentionWorkload],
    *,
    backends: Sequence[str] | None = None,
    peers: Sequence[str] | None = None,
    repeats: int = 9,
    cold: bool = False,
    phases: bool = False,
) -> list[Row]:
    """Compare results, time and memory of different implementations of attention calls.

    Return a row for each topology and implementation, with a note instead of times if the
    implementation cannot run, or its output or gradients differ from a float64 reference.
    `workloads` differ in their topology only. The default of `backends` and `peers` is all of them
    for one topology, and only the backend "auto" for several. A call in bfloat16 is also run in
    float32, by "auto". `phases` adds rows with the sum of the times of all threads in each phase of
    the backend "native". The last row is a matrix product, to show the machine's speed.
    """
    several, first = len(workloads) > 1, workloads[0]
    every = [name for name in BACKENDS if name != REFERENCE], [*PEERS]
    usual = (["auto"] * (peers is None), []) if several else every
    backends = usual[0] if backends is None else backends
    peers = usual[1] if peers is None else peers
    prepare: dict[str, Prepare] = {
        name: partial(AttentionWorkload.prepare, backend=name) for name in backends
    }
    prepare |= {name: PEERS[name] for name in peers}
    if first.dtype == torch.bfloat16:
        in_float32 = partial(AttentionWorkload.prepare, backend="auto", dtype=torch.float32)
        prepare[IN_FLOAT32] = in_float32
    text = (first.sizes if several else str(first)) + ", cold caches" * cold
    rows: dict[str, Row] = {}
    contenders: dict[str, Contender] = {}
    calls: dict[str, AttentionWorkload] = {}
    for workload in workloads:
        expected = workload.reference()
        for name, make in prepare.items():
            parts = [workload.spec] * several + [name] * (not several or len(prepare) > 1)
            title = ", ".join(parts)
            say(f"comparing {title} with a float64 reference")
            run, checks = _checked(workload, make, expected)
            rows[title] = {"workload": text, "contender": title, **checks}
            if run is not None:
                contenders[title], calls[title] = run, workload
    del expected
    a, b = torch.randn(2, _MATMUL_SIDE, _MATMUL_SIDE, device=first.device)
    contenders[_MATMUL] = partial(torch.mm, a, b)
    *timed, matmul = measure(text, contenders, repeats=repeats, device=first.device, cold=cold)
    matmul["gflop_s"] = 2e-6 * _MATMUL_SIDE**3 / matmul["ms"]
    for row in timed:
        call = calls[row["contender"]]
        speed = 1e-6 * call.flops / row["ms"]
        rows[row["contender"]] |= {
            **row,
            "gflop_s": speed,
            "matmul_share": speed / matmul["gflop_s"],
            "ns_per_edge": 1e6 * row["ms"] / len(call.in_edges[0]),
        }
    if phases and "native" in contenders:
        run = contenders["native"]
        rows |= {row["contender"]: row for row in _phase_rows(text, run, repeats)}
    return [*rows.values(), matmul]


def _phase_rows(workload: str, run: Contender, repeats: int) -> list[Row]:
    with timed_phases() as seconds:
        for _ in range(repeats):
            run()
    return [
        {"workload": workload, "contender": f"native, {phase}", "ms": 1e3 * spent / repeats}
        for phase, spent in seconds.items()
        if any(seconds.values())  # unless another kernel was faster
    ]


def _checked(
    workload: AttentionWorkload, prepare: Prepare, expected: Sequence[Tensor]
) -> tuple[Callable[[], object] | None, Row]:
    """Return the call to time (None if it fails or is wrong), and a row with error or a note."""
    try:
        run, unpad = prepare(workload)
        error = largest_error(unpad(run()), expected)
    except Exception as failure:  # the other contenders still run
        first_line = str(failure).strip().split("\n")[0]
        return None, {"note": f"cannot run: {first_line}"}
    if error <= TOLERANCE[workload.dtype]:
        return run, {"error": error}
    if not math.isfinite(error):
        return None, {"note": "wrong: not a number"}
    return None, {"error": error, "note": f"wrong by {error:.0e}"}
