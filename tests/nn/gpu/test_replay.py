import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar
from weakref import WeakSet

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

pytest.importorskip("triton", reason="needs triton")

from tests.attention.triton.interpreter import INTERPRET, skip_unless_kernels_run

if not INTERPRET:
    pytest.skip("the kernels are compiled here: see the tests marked gpu", allow_module_level=True)

from graphut.attention.triton import backend
from graphut.attention.triton.launches import Launch
from graphut.nn import gpu
from graphut.nn.gpu import program, replay, settings
from graphut.nn.gpu.async_checks import AsyncFiniteChecks
from graphut.nn.gpu.device_loop import layout_inputs
from graphut.nn.gpu.program import Program
from graphut.nn.gpu.settings import NORMS, Settings
from graphut.nn.gpu.weights import Weights
from graphut.topology import Complete
from tests import gpu_stand_in as stand_in
from tests.gpu_stand_in import gpu_stand_in
from tests.helpers import assert_same, cross_edges, layout_of
from tests.nn.cases import Case
from tests.nn.gpu.test_device_loop import numbers, results, small
from tests.nn.reference import dense_recurrence


class Recorder:
    """In place of a CUDA graph: it repeats the launches that were made while it was captured."""

    def __init__(self, run: Any) -> None:
        self.run, self.replayed = run, 0

    def __call__(self) -> None:
        self.replayed += 1
        self.run()


@pytest.fixture(autouse=True)
def _graphs_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    skip_unless_kernels_run()
    monkeypatch.setattr(replay, "idle", [])
    monkeypatch.setattr(replay, "INTERPRETED", False)
    monkeypatch.setattr(replay, "capture", Recorder)
    monkeypatch.setattr(settings, "_limits", {})


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels compute nothing, which is enough to count programs."""
    monkeypatch.setattr(Launch, "__call__", lambda _: None)
    monkeypatch.setattr(AsyncFiniteChecks, "note", lambda *_: None)


# A way back.


def fail(patch: pytest.MonkeyPatch, *names: str, error: BaseException) -> None:
    """Let launches fail of the kernels called `names`; () means all."""
    run = Launch.__call__

    def run_or_fail(launch: Launch) -> None:
        if launch.kernel.__name__ in names or not names:
            raise error
        run(launch)

    patch.setattr(Launch, "__call__", run_or_fail)


def run_out_of_memory(patch: pytest.MonkeyPatch, times: int) -> None:
    make, errors = Program.__init__, [torch.OutOfMemoryError("CUDA out of memory")] * times

    def make_or_fail(self: Program, *arguments: Any) -> None:
        if errors:
            raise errors.pop()
        make(self, *arguments)

    patch.setattr(Program, "__init__", make_or_fail)


def fail_to_capture(_: Any) -> None:
    raise RuntimeError("operation not permitted when stream is capturing")


FAILURES: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str, bool]] = {
    "in the first launch": (
        lambda patch: fail(patch, "advance", error=RuntimeError("no image")),
        "runs in the general loop.*RuntimeError: no image.*GRAPHUT_GPU=off",
        False,
    ),
    "in the backward pass": (
        lambda patch: fail(patch, "weight_gradient", error=RuntimeError("out of resource: shared")),
        "runs in the general loop.*out of resource",
        False,
    ),
    "in the capture": (
        lambda patch: patch.setattr(replay, "capture", fail_to_capture),
        "launches one by one.*not permitted.*=launches",
        True,
    ),
    "out of memory twice": (
        lambda patch: run_out_of_memory(patch, times=2),
        "general loop.*CUDA out of memory",
        False,
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_is_said_once_and_results_are_right(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inject, words, stays = FAILURES[name]
    case = small([1, 2, 1], lengths=[2, 1], max_steps=2)
    expected = case.run(dense_recurrence)
    with gpu_stand_in() as device:
        case = case.to("cuda")
        inject(monkeypatch)
        # The first launches of a backward pass read memory that nothing has written.
        with np.errstate(all="ignore"), pytest.warns(RuntimeWarning, match=words) as said:
            found = [numbers(results(case)) for _ in range(2)]
        device.clear()
        found.append(numbers(results(case)))  # and warns no more
        assert ("finish" in {launch for launch, _ in device.launches}) == stays
    assert len(said) == 1
    for each in found:
        assert_same(each[:4], expected[:4], 1e-5)
        joined = [torch.cat([x.flatten() for x in tensors[4:]]) for tensors in (each, expected)]
        assert_same(joined[:1], joined[1:], 1e-5)


def test_without_a_compiler_attention_falls_back_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "_failure", None)
    missing = FileNotFoundError("Failed to find C compiler")
    fail(monkeypatch, error=missing)
    case = small(max_steps=2)
    expected = case.run(dense_recurrence)
    with (
        gpu_stand_in(),
        pytest.warns(RuntimeWarning, match="Failed to find C compiler") as said,
    ):
        found = [numbers(results(case.to("cuda"))) for _ in range(2)]
    assert [str(each.message).split(",")[0] for each in said] == [
        "a recurrence on a GPU runs in the general loop",
        "attention on a GPU does without Triton",
    ]
    for each in found:
        assert_same(each[:4], expected[:4], 1e-5)


def test_out_of_memory_releases_idle_programs(
    monkeypatch: pytest.MonkeyPatch, programs: WeakSet[Program]
) -> None:
    with gpu_stand_in(), torch.no_grad():
        first, other = (small(max_steps=steps).to("cuda") for steps in (1, 2))
        first.layer(first.graph, first.feat, **first.arguments)
        run_out_of_memory(monkeypatch, times=1)
        other.layer(other.graph, other.feat, **other.arguments)
        assert [kept.program.settings.max_steps for kept in replay.idle] == [2]
        assert len(programs) == 1
        gpu.release()
        assert not programs


def test_torch_out_of_memory_releases_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    observers: list[Callable[..., None]] = []
    attach = "_cuda_attach_out_of_memory_observer"
    monkeypatch.setattr(torch._C, attach, observers.append, raising=False)
    replay._release_when_out_of_memory.cache_clear()
    with gpu_stand_in(), torch.no_grad():
        case = small(max_steps=1).to("cuda")
        for _ in range(2):
            case.layer(case.graph, case.feat, **case.arguments)
        assert replay.idle
        [observe] = observers
        observe(0, 2**30, 2**34, 0)
        assert not replay.idle
    replay._release_when_out_of_memory.cache_clear()


def test_an_interrupted_program_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    with gpu_stand_in(), torch.no_grad():
        case = small(max_steps=1).to("cuda")
        with monkeypatch.context() as patch:
            fail(patch, "finish", error=KeyboardInterrupt())
            with pytest.raises(KeyboardInterrupt):
                case.layer(case.graph, case.feat, **case.arguments)
        assert not replay.idle


@pytest.mark.parametrize("name", ["off", "launches", "graphs"])
def test_mode(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with gpu_stand_in() as device, torch.no_grad():
        case = small(max_steps=1).to("cuda")

        def call() -> Tensor:
            out: Tensor = case.layer(case.graph, case.feat, **case.arguments)[0]
            return out

        expected = call()
        call()  # captures
        with gpu.mode(name):
            device.clear()
            assert_same(numbers([call()]), numbers([expected]), 1e-6)
            replayed = [each.forward[0]._replay for each in replay.idle]
        ran = {launch for launch, _ in device.launches}
        assert ("finish" in ran) == (name != "off") and replayed[0].replayed == 1 + (
            name == "graphs"
        )
        monkeypatch.setenv("GRAPHUT_GPU", "fast")
        with pytest.raises(ValueError, match="GRAPHUT_GPU must be one of off, launches, graphs"):
            call()
        with (
            pytest.raises(ValueError, match="name must be one of off, launches, graphs, got"),
            gpu.mode("on"),
        ):
            pass


def test_graphs_are_replayed_until_no_node_is_active(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "CHUNK", 2)
    depths = [5, 1, 3, 1], [1, 1, 1, 1], [1, 4, 2, 1], [2, 2, 2, 2], [5, 5, 1, 1]
    cases = [small(each, max_steps=5) for each in depths]
    expected = [case.run(dense_recurrence) for case in cases]
    with gpu_stand_in(), np.errstate(all="ignore"):
        found = [numbers(results(case.to("cuda"))) for case in cases]
    for each, wanted in zip(found, expected, strict=True):
        assert_same(each[:4], wanted[:4], 1e-5)
        joined = [torch.cat([x.flatten() for x in tensors[4:]]) for tensors in (each, wanted)]
        assert_same(joined[:1], joined[1:], 1e-5)
    [kept] = replay.idle  # the first call makes each launch once before it replays some backward
    counts = [[graph._replay.replayed for graph in kind] for kind in (kept.forward, kept.backward)]
    assert counts == [[4, 2, 1], [5, 3, 2, 5]]


# Memory.


def rings(nodes: int, seed: int) -> Any:
    """Return a random graph whose nodes have themselves among their in-neighbours."""
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(0, nodes, (3 * nodes, 2), generator=generator).tolist()
    return layout_of([(i, i) for i in range(nodes)] + [(a, b) for a, b in ends], nodes, nodes)


def train(case: Case) -> Tensor:
    out, ponder = case.layer(case.graph, case.feat, **case.arguments)
    loss: Tensor = out.sum() + ponder.cost
    loss.backward()
    return loss


@pytest.mark.usefixtures("nothing_runs")
def test_random_graphs_share_programs(programs: WeakSet[Program]) -> None:
    with gpu_stand_in():
        layer, kept = small(max_steps=2).layer.to("cuda"), []
        for seed in range(100):
            nodes = 30 + seed % 31
            graph, feat = rings(nodes, seed), torch.zeros(nodes, 8).to("cuda")
            kept.append(train(Case(layer, graph, feat.requires_grad_())))
        assert len(programs) == len(replay.idle) <= 3


@pytest.mark.usefixtures("nothing_runs")
def test_kept_losses_and_checkpoints_hold_no_program(programs: WeakSet[Program]) -> None:
    with gpu_stand_in():
        case = small(max_steps=2).to("cuda")
        kept: list[Any] = [train(case) for _ in range(20)]
        assert len(programs) == len(replay.idle) == 1
        ponder = case.layer(case.graph, case.feat, **case.arguments)[1]
        assert not replay.idle  # until the backward pass
        ponder.cost.backward(retain_graph=True)
        assert not replay.idle
        ponder.cost.backward()
        assert len(programs) == len(replay.idle) == 1
        kept.append(ponder)

        def step(feat: Tensor) -> Tensor:
            out: Tensor = case.layer(case.graph, feat, **case.arguments)[0]
            return out

        out = case.feat
        for _ in range(3):
            out = checkpoint(step, out, use_reentrant=False, preserve_rng_state=False)
            assert len(replay.idle) == 1
        out.sum().backward()
        assert len(programs) == len(replay.idle) == 1


def test_a_backward_pass_whose_ticket_was_copied_runs_the_steps_again(
    programs: WeakSet[Program],
) -> None:
    with gpu_stand_in():
        case = small([1, 2], lengths=[2], max_steps=2).to("cuda")
        expected = numbers(results(case))
        with torch.autograd.graph.saved_tensors_hooks(torch.clone, lambda x: x):
            found = numbers(results(case))
        assert all(map(torch.equal, found, expected)) and len(programs) == 1


# What is launched beside the graph.


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("topology", ["complete", "rows"])
def test_a_new_layout_costs_few_launches(topology: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The stand-in intercepts operations, so that step signals would be computed in each call.
    monkeypatch.setattr("graphut.nn.signals._get_current_dispatch_mode", lambda: None)
    with gpu_stand_in() as device:
        layer = small(max_steps=2).layer.to("cuda")
        layer.step.attention.attn_drop = 0.1  # needs the ids of edges
        run = replay.Replay.run

        def uncounted(*arguments: Any) -> None:
            before = device.launches[:]
            run(*arguments)
            device.launches[:] = before

        monkeypatch.setattr(replay.Replay, "run", uncounted)
        for seed, lengths in enumerate(([3, 2], [2, 2, 4])):
            nodes = sum(lengths)
            graph = rings(nodes, seed) if topology == "rows" else Complete().layout(lengths)
            positions = torch.cat([torch.arange(1, n + 1) for n in lengths]).to("cuda")
            feat = torch.zeros(sum(lengths), 8).to("cuda").requires_grad_()
            device.clear()
            out, ponder = layer(graph, feat, positions=positions)
            forward = device.launches[:]
            # The layout, and its edges by destination and by source, or its row starts.
            assert device.waits == [] and len(device.copies) <= 3, device.copies
            layer.zero_grad()  # else torch adds to each gradient
            device.clear()
            torch.autograd.backward([out, ponder.cost], [torch.zeros_like(out), None])
        assert len(forward) <= 12, forward
        # Two are the gradient of the mean, and one is `zeros_like` above.
        assert len(device.launches) <= 8, device.launches


@pytest.mark.usefixtures("nothing_runs")
def test_autocast_sees_nothing_of_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    for name in ("prepare", "collect"):
        monkeypatch.setattr(
            Weights, name, lambda *_: seen.append(torch.is_autocast_enabled("cuda"))
        )
    with gpu_stand_in():
        case = small(max_steps=2).to("cuda")
        torch.set_autocast_enabled("cuda", True)  # as `torch.autocast`, which needs a GPU
        try:
            train(case)
        finally:
            torch.set_autocast_enabled("cuda", False)
    assert len(seen) == 3 and not any(seen)  # the backward pass is tried first


# Several devices and threads.


class Graph:
    """In place of a CUDA graph: it notes the stream of each capture and replay."""

    seen: ClassVar[list[Any]] = []

    def capture_begin(self, **_: Any) -> None:
        self.seen.append(("capture", torch.cuda.current_device(), Stream.active))

    def capture_end(self) -> None:
        pass

    def replay(self) -> None:
        self.seen.append(("replay", torch.cuda.current_device(), Stream.active))


class Stream:
    """In place of a CUDA stream."""

    active: ClassVar[Any] = None

    def __init__(self, device: int) -> None:
        self.device = device

    def wait_stream(self, other: Any) -> None:
        assert other.index == self.device == torch.cuda.current_device()


@contextmanager
def active(stream: Any) -> Iterator[None]:
    Stream.active = stream.device
    yield
    Stream.active = None


def test_each_device_has_its_own_programs_and_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(replay, "idle", [])
    monkeypatch.setattr(replay, "INTERPRETED", False)
    monkeypatch.setattr(Graph, "seen", [])
    monkeypatch.setattr(stand_in.Stream, "wait_stream", lambda *_: None, raising=False)
    for name, fake in (("CUDAGraph", Graph), ("Stream", Stream), ("stream", active)):
        monkeypatch.setattr(torch.cuda, name, fake)
    replay._capture_stream.cache_clear()
    cases = [small([1, 2, 2, 1], max_steps=2) for _ in range(2)]
    with gpu_stand_in(), torch.no_grad():
        cases = [case.to(f"cuda:{index}") for index, case in enumerate(cases)]
        expected = [each.layer(each.graph, each.feat, **each.arguments)[0] for each in cases]
        assert torch.equal(*(x.numbers for x in expected))
        assert [x.device.index for x in expected] == [0, 1]
        for each in reversed(cases):
            each.layer(each.graph, each.feat, **each.arguments)
    assert Graph.seen == [
        step for index in (1, 0) for step in (("capture", index, index), ("replay", index, None))
    ]
    replay._capture_stream.cache_clear()


def test_threads_never_share_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nothing:
        """In place of a program."""

        def __init__(self, settings: Any, inputs: Any) -> None:
            self.settings, self.forward, self.backward, self.nbytes = settings, [], [], 0

    used, clashes = Counter[int](), list[int]()

    def lease(_: int) -> None:
        held = replay.Lease(None, {"states": torch.zeros(3, 2)})  # type: ignore[arg-type]
        used[id(held.program)] += 1
        time.sleep(1e-4)
        clashes.extend([used[id(held.program)]] * (used[id(held.program)] > 1))
        used[id(held.program)] -= 1
        held.give_back()

    monkeypatch.setattr(replay, "Program", Nothing)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: None)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lease, range(800)))
    assert not clashes and 1 <= len(replay.idle) <= 8


# Lengths of the 29,000 English sentences of Multi30k's training set, in words, from 4 on; a German
# sentence is shorter by 0.8 words, with a standard deviation of 1.9.
SENTENCES = [
    *(3, 21, 171, 741, 1719, 2489, 3199, 3490, 3340, 2940, 2552, 2126, 1619, 1245, 947, 700, 528),
    *(362, 227, 195, 117, 81, 57, 43, 23, 10, 15, 9, 10, 7, 6, 4, 0, 3, 1),
]


def batches(tokens: int | None) -> Iterator[list[tuple[int, int]]]:
    """Yield one epoch of batches with 64 sentences, or with sentences of about the same length."""
    draw = random.Random(0)
    english = [words for words, times in enumerate(SENTENCES, 4) for _ in range(times)]
    pairs = [(n, max(3, round(draw.gauss(n - 0.8, 1.9)))) for n in english]
    draw.shuffle(pairs)
    if tokens is not None:
        pairs.sort(key=lambda pair: pair[0] + draw.random())
    found: list[list[tuple[int, int]]] = [[]]
    for pair in pairs:
        size = len(found[-1]) if tokens is None else sum(map(max, found[-1])) + max(pair)
        if size > (tokens or 63):
            found.append([])
        found[-1].append(pair)
    draw.shuffle(found)
    yield from found


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize(
    ("tokens", "dtype"),
    [(None, torch.bfloat16), (None, torch.float32), (2048, torch.bfloat16), (4096, torch.bfloat16)],
    ids=str,
)
def test_most_batches_of_sentences_have_a_program(
    tokens: int | None, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Encoder and decoder of a model with 512 features train for an epoch, without memory."""
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: None)
    encoder = Settings(
        max_steps=6,
        heads=(8,),
        norm="post",
        eps=(1e-5,) * 3,
        dropout=(0.1,) * 6,
        activation="relu",
        learns=True,
        work=dtype,
        stores_all=False,
        moves_values=True,
    )
    both = replace(encoder, heads=(8, 8))
    like: Any = {"dtype": dtype, "device": "meta"}
    sizes = {"query": (512, 512), "key_value": (1024, 512), "output": (512, 512)}
    sizes |= {"first": (2048, 512), "last": (512, 2048)}
    sizes |= {"cross_query": (512, 512), "cross_output": (512, 512)}
    layer = {f"{name}_weight": torch.empty(size, **like) for name, size in sizes.items()}
    for norm in NORMS:
        layer |= {f"{norm}_norm_{x}": torch.empty(512, **like) for x in ("weight", "bias")}
    layer["seeds"] = torch.empty(6, 6, 2, dtype=torch.int64, device="meta")
    layers = {k: x for k, x in layer.items() if "cross" not in k}, layer
    calls = made = 0
    for batch in batches(tokens):
        source, target = zip(*batch, strict=True)
        for lengths, other in ((source, None), (target, source)):
            own = both if other else encoder
            inputs = {**layers[other is not None], "states": torch.empty(sum(lengths), 512, **like)}
            inputs |= layout_inputs(Complete().layout(lengths), "", own, inputs)
            if other is not None:
                inputs["encoded"] = torch.empty(sum(other), 1024, **like)
                inputs |= layout_inputs(
                    cross_edges(Complete(), lengths, other), "cross_", own, inputs
                )
            known = {id(kept) for kept in replay.idle}
            lease = replay.Lease(own, {k: x.to("meta") for k, x in inputs.items()})
            lease.give_back()
            made += id(replay.idle[-1]) not in known
            calls += 1
    assert made / calls <= 0.05
