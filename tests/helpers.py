"""What the tests of several rooms share: closeness, gradients, graphs, pairwise designs."""

import csv
import io
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from graphut.attention import EdgeLayout, layout_from_edges
from graphut.topology import Causal, Complete, Topology
from graphut.topology.cross import cross_layout

Pairs = list[tuple[int, int]]


def read_rows(path: Path) -> list[dict[str, str]]:
    return [*csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")))]


def cross_edges(topology: Topology, targets: Sequence[int], sources: Sequence[int]) -> EdgeLayout:
    """The edges from source sentences to target sentences of the given lengths."""
    return cross_layout(topology, targets, sources, decoder=Causal(), encoder=Complete())


def relative_error(found: Tensor, expected: Tensor) -> float:
    """Norm of the difference by that of `expected`; a norm next to 0 counts as 0.01."""
    found, expected = found.detach().double(), expected.detach().double()
    return float((found - expected).norm() / expected.norm().clamp_min(1e-2))


def assert_same(
    found: Sequence[Tensor | None], expected: Sequence[Tensor | None], tolerance: float = 1e-10
) -> None:
    """Tensors of the same shape and dtype, the same to `tolerance` norm-wise."""
    assert len(found) == len(expected)
    for index, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert a is not None and b is not None
        assert (a.shape, a.dtype) == (b.shape, b.dtype), f"tensor {index}"
        error = relative_error(a, b)
        assert error <= tolerance, f"tensor {index} is off by {error:.1e}"


def refuses(words: str, call: Callable[..., Any], /, *args: Any, **options: Any) -> None:
    """Assert that a call raises an error with a message that matches `words`."""
    with pytest.raises((TypeError, ValueError, RuntimeError), match=words):
        call(*args, **options)


@contextmanager
def no_device_waits() -> Iterator[None]:
    """Let an operation for which the host waits for a CUDA device raise an error."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Synchronization debug mode is a prototype")
        mode = torch.cuda.get_sync_debug_mode()
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(mode)


def gradients(outputs: Sequence[Tensor], inputs: Iterable[Tensor]) -> list[Tensor]:
    """Gradients of one fixed random projection of `outputs`."""
    generator = torch.Generator().manual_seed(1)
    loss = torch.zeros((), dtype=torch.float64)
    for output in outputs:
        direction = torch.randn(output.shape, generator=generator, dtype=torch.float64)
        loss = loss + (output.double() * direction).sum()
    if not loss.requires_grad:
        return [torch.zeros_like(x) for x in inputs]
    return list(torch.autograd.grad(loss, list(inputs), allow_unused=True, materialize_grads=True))


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Seeded normal numbers, the same in every dtype, with a gradient to come."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()


def layout_of(pairs: Pairs, num_src: int, num_dst: int, **lengths: Tensor) -> EdgeLayout:
    """The layout of `(source, destination)` pairs, whose order is that of the edge ids."""
    src, dst = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T
    return layout_from_edges(src, dst, num_src=num_src, num_dst=num_dst, **lengths)


def pairs_of(layout: EdgeLayout) -> Pairs:
    """`(source, destination)` of every edge, by edge id."""
    row, source, edge = layout.in_edges()
    by_id = edge.argsort()
    return list(zip(source[by_id].tolist(), row[by_id].tolist(), strict=True))


@st.composite
def multigraphs(draw: st.DrawFn, live: bool = False) -> tuple[Pairs, int, int]:
    """Edges in any order, some twice, between 1 to 6 sources and destinations; if `live`, among
    the same nodes and at least one edge into each."""
    num_src = draw(st.integers(1, 6))
    num_dst = num_src if live else draw(st.integers(1, 6))
    source = st.integers(0, num_src - 1)
    pairs = draw(st.lists(st.tuples(source, st.integers(0, num_dst - 1)), max_size=20))
    if live:
        pairs = draw(st.permutations(pairs + [(draw(source), i) for i in range(num_dst)]))
    return pairs, num_src, num_dst


def covering(**factors: Sequence[Any]) -> list[dict[str, Any]]:
    """Some rows of the product in which any two values of two factors meet (greedy)."""
    levels = {name: [(name, at) for at in range(len(values))] for name, values in factors.items()}
    missing = {
        frozenset(pair) for two in combinations(levels.values(), 2) for pair in product(*two)
    }
    chosen = []
    while missing:
        row = set(min(missing, key=sorted))
        for name in sorted(levels.keys() - dict(row).keys()):
            meets = [
                sum(frozenset((level, old)) in missing for old in row) for level in levels[name]
            ]
            row.add((name, meets.index(max(meets))))
        missing -= set(map(frozenset, combinations(row, 2)))
        at = dict(row)
        chosen.append({name: values[at[name]] for name, values in factors.items()})
    return chosen


def name_of(row: dict[str, Any]) -> str:
    """A row of a design as a test's name."""
    return "-".join(map(str, row.values()))
