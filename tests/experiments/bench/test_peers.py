from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

import pytest
import torch

from graphut.experiments.bench import peers
from graphut.experiments.bench.implementations import (
    PreparedRun,
    UnavailableError,
    largest_error,
    reference,
)
from graphut.experiments.bench.peers import (
    PEERS,
    check_memory,
    prepare_flex,
    prepare_nested,
    prepare_padded,
    prepare_pyg,
    prepare_sentences,
)
from graphut.experiments.bench.workloads import Sizes
from graphut.topology import Causal, Complete, Topology, Window
from tests.experiments.bench.cases import SIZES, TOPOLOGIES, problem
from tests.topology.brute import Comb

HERE = [
    name
    for name in PEERS
    if name not in ("flex", "nested") and (name != "pyg" or find_spec("torch_geometric"))
]


@pytest.mark.parametrize("fraction", [1.0, 0.4])
@pytest.mark.parametrize("topology", TOPOLOGIES, ids=str)
@pytest.mark.parametrize("name", HERE)
def test_peers_equal_the_reference(name: str, topology: Topology, fraction: float) -> None:
    case = problem(topology=topology, fraction=fraction)
    entry = PreparedRun(case, PEERS[name](case))
    assert largest_error(entry.packed(), reference(case)) < 1e-12


@pytest.mark.parametrize("name", HERE)
def test_peers_refuse_an_edge_bias(name: str) -> None:
    with pytest.raises(UnavailableError, match="takes no edge bias"):
        PEERS[name](problem(biased=True))


@pytest.mark.gpu
@pytest.mark.parametrize("name", PEERS)
def test_peers_on_a_gpu(name: str) -> None:
    case = problem(device=torch.device("cuda"), dtype=torch.float32, dim=32)
    entry = PreparedRun(case, PEERS[name](case))
    assert largest_error(entry.packed(), reference(case)) < 1e-5


def test_prepare_nested_equals_the_reference() -> None:
    case = problem(topology=Complete())
    entry = PreparedRun(case, prepare_nested(case))
    assert largest_error(entry.packed(), reference(case)) < 1e-12


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"topology": Window(1)}, "all rows of complete or causal graphs alone"),
        ({"fraction": 0.4}, "all rows of complete or causal graphs alone"),
        ({}, "no causal kernel for the CPU"),
    ],
)
def test_prepare_nested_refuses_what_torch_does_not_take(
    changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(UnavailableError, match=words):
        prepare_nested(problem(**changes))


def test_prepare_flex_refuses_the_cpu() -> None:
    with pytest.raises(UnavailableError, match="no backward on the CPU"):
        prepare_flex(problem())


def test_prepare_flex_refuses_an_older_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.nn.attention.flex_attention", None)
    with pytest.raises(UnavailableError, match=r"came with torch 2\.5"):
        prepare_flex(problem(), lambda kernel: kernel)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("fraction", [1.0, 0.4])
@pytest.mark.parametrize("topology", TOPOLOGIES, ids=str)
def test_prepare_flex_has_the_right_masks(topology: Topology, fraction: float) -> None:
    case = problem(topology=topology, fraction=fraction, dtype=torch.float32, forward_only=True)
    entry = PreparedRun(case, prepare_flex(case, lambda kernel: kernel))
    assert largest_error(entry.packed(), reference(case)) < 1e-5


def test_prepare_padded_pads_before_the_timing() -> None:
    case = problem()
    lengths = SIZES.lengths()
    table = prepare_padded(case).sources.pad(case.inputs[1])
    assert table.shape == (3, int(lengths.max()), 2, 4)
    assert table.count_nonzero() == case.inputs[1].count_nonzero()


def test_prepare_pyg_refuses_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_geometric.nn", None)
    monkeypatch.setitem(sys.modules, "torch_geometric", None)
    with pytest.raises(UnavailableError, match="not installed: pip install torch_geometric"):
        prepare_pyg(problem())


CPU = torch.device("cpu")


def test_check_memory_refuses_what_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "free_bytes", lambda device: 2 << 30)
    check_memory(1 << 30, CPU)
    with pytest.raises(UnavailableError, match="needs about 3 GiB, 2 GiB are free"):
        check_memory(3 << 30, CPU)


def test_check_memory_accepts_all_where_free_memory_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peers, "free_bytes", lambda device: None)
    check_memory(1 << 60, CPU)


@pytest.mark.parametrize(
    ("topology", "masked", "causal"),
    [(Complete(), False, False), (Causal(), False, True), (Comb(2), True, False)],
    ids=str,
)
def test_prepare_sentences_has_a_mask_only_where_one_is_needed(
    topology: Topology, masked: bool, causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, seen = torch.nn.functional.scaled_dot_product_attention, []

    def spy(*args: torch.Tensor, attn_mask: torch.Tensor | None, is_causal: bool) -> torch.Tensor:
        seen.append((attn_mask is not None, is_causal))
        return real(*args, attn_mask=attn_mask, is_causal=is_causal)

    monkeypatch.setattr(peers, "scaled_dot_product_attention", spy)
    case = problem(topology=topology, sizes=Sizes(3, 4, 4), forward_only=True)
    PreparedRun(case, prepare_sentences(case))()
    assert seen == [(masked, causal)] * 3
