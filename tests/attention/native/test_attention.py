from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

from graphut.attention import EdgeLayout, edge_attention
from graphut.attention.kernel_library import LIBRARY
from graphut.attention.native.attention import EdgeAttention
from graphut.attention.native.ops import ScalarArgs
from graphut.topology import Causal, Complete, Window
from tests.attention.naive import hubs
from tests.helpers import assert_same, cross_edges, gradients, normal, relative_error

pytestmark = pytest.mark.skipif(LIBRARY is None, reason="the compiled kernels are not built")
HAS_PAIRS = LIBRARY is not None and bool(LIBRARY._dll.graphut_multiplies_pairs())
NEEDS_PAIRS = pytest.mark.skipif(not HAS_PAIRS, reason="no AVX512-BF16 here")

KERNELS = ["interval", "rows"]
PAIRS = pytest.param("pairs", marks=NEEDS_PAIRS)  # the kernel of intervals for bfloat16


@pytest.fixture(params=[1, 4])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def tables(
    layout: EdgeLayout,
    heads: int = 2,
    feats: int = 4,
    value_feats: int | None = None,
    rows: int | None = None,
    dtype: torch.dtype = torch.float64,
) -> list[Tensor]:
    rows = layout.num_dst if rows is None else rows
    value_feats = feats if value_feats is None else value_feats
    sizes = [(rows, feats), (layout.num_src, feats), (layout.num_src, value_feats)]
    return [normal(n, heads, f, seed=i, dtype=dtype) for i, (n, f) in enumerate(sizes)]


def native(
    layout: EdgeLayout,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    kernel: str,
    frontier: Tensor | None = None,
    edge_bias: Tensor | None = None,
    scale: float = 0.5,
    dropout: float = 0.0,
    seed: int = 0,
) -> Tensor:
    scalars = ScalarArgs(scale, dropout, seed, kernel)
    out: Tensor = EdgeAttention.apply(query, key, value, frontier, edge_bias, layout, scalars)
    return out


def check(
    layout: EdgeLayout,
    inputs: list[Tensor],
    kernel: str,
    tolerance: float = 1e-10,
    together: bool = False,
    **options: Any,
) -> None:
    """Compare outputs and gradients, each or all together, with the dense oracle in float64."""
    leaves = [*inputs, *([options["edge_bias"]] if "edge_bias" in options else [])]
    found = native(layout, *inputs, kernel=kernel, **options)
    expected, wide = exact(layout, leaves, options)
    grads = [
        [x.double() for x in gradients([y], z)] for y, z in ((found, leaves), (expected, wide))
    ]
    if together:
        grads = [[joined(own)] for own in grads]
    assert_same([found.double(), *grads[0]], [expected, *grads[1]], tolerance)


def exact(
    layout: EdgeLayout, leaves: list[Tensor], options: dict[str, Any]
) -> tuple[Tensor, list[Tensor]]:
    """Return the output of the dense oracle in float64, and its leaves."""
    wide = [x.detach().double().requires_grad_() for x in leaves]
    options = {"scale": 0.5, **options, **dict(zip(["edge_bias"], wide[3:], strict=False))}
    out = edge_attention(layout, *wide[:3], allow_zero_in_degree=True, backend="dense", **options)
    return out, wide


def check_pairs(
    layout: EdgeLayout, feats: int, value_feats: int | None = None, heads: int = 3, **options: Any
) -> None:
    """Compare the errors of bfloat16 pairs with those of the same kernel in float32.

    The output, and all gradients together, are at most twice as far from the dense oracle.
    """
    rows = len(options["frontier"]) if "frontier" in options else None
    inputs = tables(layout, heads, feats, value_feats, rows, torch.bfloat16)
    leaves = [*inputs, *([options["edge_bias"]] if "edge_bias" in options else [])]
    expected, wide = exact(layout, leaves, options)
    truth = [expected, joined(gradients([expected], wide))]
    errors = []
    for kernel in ("pairs", "interval"):
        out = native(layout, *inputs, kernel=kernel, **options)
        found = [out, joined(gradients([out], leaves))]
        errors.append([relative_error(*both) for both in zip(found, truth, strict=True)])
    for fast, plain in zip(*errors, strict=True):
        assert fast <= 2 * plain


def joined(grads: list[Tensor]) -> Tensor:
    return torch.cat([grad.flatten().double() for grad in grads])


def every_other(layout: EdgeLayout) -> Tensor:
    return torch.arange(0, layout.num_dst, 2)


@NEEDS_PAIRS
def test_native_attention_in_bfloat16_takes_pairs() -> None:
    layout = Complete().layout([40, 41])
    inputs = tables(layout, 2, 32, dtype=torch.bfloat16)
    fastest, pairs, plain = (
        native(layout, *inputs, kernel=kernel) for kernel in ("fastest", "pairs", "interval")
    )
    assert torch.equal(fastest, pairs) and not torch.equal(fastest, plain)


LONG = {
    "more sources than a stretch": Complete().layout([150]),
    "more rows than a tile": Window(3).layout([1600]),
    "a causal sentence of many tiles": Causal().layout([700]),
    "a window over many sentences": Window(20).layout([100, 3, 90]),
    "across": cross_edges(Complete(), [70, 20], [20, 300]),
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("graph", LONG)
def test_native_attention_of_long_sentences_on_one_thread_and_on_several(
    graph: str, kernel: str, threads: int
) -> None:
    layout = LONG[graph]
    check(layout, tables(layout, 2, 3), kernel)


@NEEDS_PAIRS
@pytest.mark.parametrize("graph", LONG)
def test_native_attention_of_pairs_in_long_sentences(graph: str, threads: int) -> None:
    check_pairs(LONG[graph], 20)


def test_native_attention_of_rows_and_sources_of_many_edges(threads: int) -> None:
    """More edges than the kernels hold at a time: of one row, of one source, and in all."""
    layout = hubs(700, 700, 40_000)
    check(layout, tables(layout, 1, 2), "rows")
    frontier = every_other(layout)
    check(layout, tables(layout, 1, 2, rows=len(frontier)), "rows", frontier=frontier)


def test_native_attention_of_tables_that_no_cache_holds() -> None:
    """Keys and values of over four MiB, which are asked for early."""
    layout = hubs(1000, 1000, 3000)
    frontier = every_other(layout)
    check(layout, tables(layout, 1, 270, rows=len(frontier)), "rows", frontier=frontier)


def test_native_attention_in_several_threads_at_once() -> None:
    """The kernels keep memory between calls, which only one call at a time may use."""
    layout = hubs(300, 300, 4000)
    inputs = [tables(layout, 2, feats) for feats in range(5, 13)] * 5

    def grads(own: list[Tensor]) -> list[Tensor]:
        leaves = [x.detach().requires_grad_() for x in own]
        return gradients([native(layout, *leaves, kernel="rows")], leaves)

    with ThreadPoolExecutor(4) as pool:
        for found, own in zip(pool.map(grads, inputs), inputs, strict=True):
            assert_same(found, grads(own), 1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
def test_native_attention_gives_zero_for_denormals(kernel: str) -> None:
    layout = Complete().layout([2])
    query = torch.ones(2, 1, 1)
    key = torch.tensor([0.0, -90.0]).view(2, 1, 1)  # exp(-90) is denormal in float32
    value = torch.tensor([0.0, 1e38]).view(2, 1, 1)
    assert not native(layout, query, key, value, kernel=kernel, scale=1.0).any()


TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-3, torch.bfloat16: 2e-2}


@pytest.mark.parametrize("calls", [200, pytest.param(6000, marks=pytest.mark.full)])
def test_native_attention_of_random_calls(calls: int) -> None:
    random, before = Random(calls), torch.get_num_threads()
    for _ in range(calls):
        torch.set_num_threads(random.choice([1] * 9 + [3]))
        layout, kernel = random_layout(random)
        frontier = torch.arange(layout.num_dst)[:: random.randint(1, 4)]
        dtype, far = random.choice(list(TOLERANCES)), random.choice([0, 0, 5, 30])
        if HAS_PAIRS and dtype == torch.bfloat16 and kernel == "interval":
            kernel = random.choice(["interval", "pairs"])
        inputs = random_tables(layout, len(frontier), dtype, far, random)
        options = random_options(layout, inputs[0], random)
        if len(frontier) < layout.num_dst:
            options["frontier"] = frontier
        if random.random() < 0.05:
            with torch.no_grad():
                random.choice(inputs)[:1, 0, 0] = random.choice([torch.nan, torch.inf, -torch.inf])
            with suppress(ValueError):  # it may be where nobody looks
                native(layout, *inputs, kernel=kernel, **options).sum().backward()
        else:
            # Where a row sees one edge, the query's gradient is nothing but rounding.
            check(layout, inputs, kernel, TOLERANCES[dtype] * (1 + far**2), True, **options)
    torch.set_num_threads(before)


def random_tables(
    layout: EdgeLayout, rows: int, dtype: torch.dtype, far: float, random: Random
) -> list[Tensor]:
    """Query, key and value in any order of memory; with `far`, all scores are far from zero."""
    heads, feats, value_feats = (random.choice([1, 2, 3, 8, random.randint(1, 40)]) for _ in "123")
    query, key, value = tables(layout, heads, feats, value_feats, rows, dtype)
    if far:
        query, key = (query / 9 + far) * random.choice([-1, 1]), key / 9 + far
    return [strided(x.detach(), random).requires_grad_() for x in (query, key, value)]


def random_options(layout: EdgeLayout, query: Tensor, random: Random) -> dict[str, Any]:
    """A scale and, in some calls each, dropout and a bias."""
    _, heads, feats = query.shape
    wide = torch.promote_types(query.dtype, torch.float32)
    options: dict[str, Any] = {"scale": random.choice([0.1, 1.0 / feats])}
    if random.random() < 0.4:
        options |= {"dropout": random.choice([0.1, 0.9]), "seed": random.getrandbits(63)}
    if random.random() < 0.4:
        bias = normal(layout.num_edges, random.choice([1, heads]), dtype=wide).detach()
        hidden = random.choice([0, 0.3, 1])
        bias[[edge for edge in range(len(bias)) if random.random() < hidden]] = -torch.inf
        options["edge_bias"] = bias.requires_grad_()
    return options


def random_layout(random: Random) -> tuple[EdgeLayout, str]:
    """A layout of up to 120 nodes, or of random edges, and a kernel that can do it."""
    lengths = [random.choice([1, 2, 5, random.randint(1, 60)]) for _ in range(random.randint(1, 3))]
    sources = [random.randint(1, 60) for _ in lengths]
    random_edges = hubs(
        sum(sources), sum(lengths), random.choice([0, 1, 50, 1500]), seed=lengths[0]
    )
    return random.choice(
        [
            (Causal().layout(lengths), random.choice(KERNELS)),
            (Window(random.choice([1, 7, 30])).layout(lengths), random.choice(KERNELS)),
            (cross_edges(Complete(), sources, lengths), random.choice(KERNELS)),
            (random_edges, "rows"),
        ]
    )


def strided(table: Tensor, random: Random) -> Tensor:
    """The same numbers, laid out in memory in another order or with gaps."""
    order = random.choice([(0, 1, 2), (1, 0, 2), (2, 1, 0)])
    back = [order.index(dim) for dim in range(3)]
    gap = random.choice([1, 1, 2])
    room = table.new_empty(*(table.shape[dim] for dim in order[:2]), table.shape[order[2]] * gap)
    view = room[..., ::gap].permute(*back)
    return view.copy_(table)


@pytest.fixture
def nan_where_nothing_is_written() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    assert torch.empty(3).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("nan_where_nothing_is_written")
@pytest.mark.parametrize("kernel", [*KERNELS, PAIRS])
def test_native_attention_writes_gradients_of_sources_that_no_row_sees(
    kernel: str, threads: int
) -> None:
    for layout in (Window(5).layout([300, 9]), Complete().layout([3, 4, 90, 2])):
        for nodes in ([], [4], [20, 90], list(range(10, layout.num_dst - 5, 20))):
            frontier = torch.tensor(nodes, dtype=torch.int64)
            if kernel == "pairs":
                check_pairs(layout, 6, frontier=frontier)
            else:
                check(layout, tables(layout, 3, 6, rows=len(nodes)), kernel, frontier=frontier)


@pytest.mark.parametrize("kernel", [*KERNELS, PAIRS])
def test_native_attention_gives_the_same_bits_twice_and_on_any_threads(kernel: str) -> None:
    layout, before = Causal().layout([300, 40]), torch.get_num_threads()
    dtype = torch.bfloat16 if kernel == "pairs" else torch.float32
    inputs = tables(layout, 3, 16, dtype=dtype)
    found = []
    for threads in (1, 1, 3, 3):
        torch.set_num_threads(threads)
        out = native(layout, *inputs, kernel=kernel, dropout=0.1, seed=1)
        found.append([out, *gradients([out], inputs)])
    torch.set_num_threads(before)
    assert torch.equal(found[0][0], found[2][0])
    for first, second in (found[:2], found[2:]):
        assert all(map(torch.equal, first, second))


@pytest.mark.parametrize(("nodes", "heads"), [(3, 2), (1, 1)])
def test_native_attention_of_a_view_with_the_sign_turned(nodes: int, heads: int) -> None:
    layout = Causal().layout([nodes])
    query, key, value = (torch.randn(nodes, heads, 1, dtype=torch.complex128) for _ in range(3))
    turned = [x.conj().imag for x in (query, key, value)]
    assert all(x.is_neg() for x in turned)
    found, expected = (edge_attention(layout, *turned, backend=b) for b in ("native", "dense"))
    assert_same([found], [expected])
