from importlib.util import find_spec

import pytest
import torch

from graphut.experiments.bench import peers
from graphut.experiments.bench.driver import CPU, largest_error
from graphut.experiments.bench.peers import PEERS, check_memory, flex_mask
from tests.experiments.bench.cases import SPECS, small_call

HERE = [
    name for name in PEERS if name != "flex" and (name != "pyg" or find_spec("torch_geometric"))
]


@pytest.mark.parametrize("fraction", [1.0, 0.4])
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("name", HERE)
def test_peers_equal_the_reference(name: str, spec: str, fraction: float) -> None:
    workload = small_call(spec=spec, fraction=fraction)
    run, unpad = PEERS[name](workload)
    for _ in range(2):
        assert largest_error(unpad(run()), workload.reference()) < 1e-12


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore")  # torch.compile warns about parts of torch
@pytest.mark.parametrize("name", PEERS)
def test_peers_on_a_gpu(name: str) -> None:
    workload = small_call(device=torch.device("cuda"), dtype=torch.float32, dim=32)
    run, unpad = PEERS[name](workload)
    assert largest_error(unpad(run()), workload.reference()) < 1e-5


@pytest.mark.parametrize("fraction", [1.0, 0.4])
@pytest.mark.parametrize("spec", SPECS)
def test_flex_mask_is_true_for_the_edges(spec: str, fraction: float) -> None:
    workload = small_call(spec=spec, fraction=fraction)
    rows, sources = (torch.arange(len(x)) for x in workload.tensors[:2])
    no = torch.tensor(0)
    found = flex_mask(workload)(no, no, rows[:, None], sources[None])
    expected = torch.zeros(len(rows), len(sources), dtype=torch.bool)
    expected[workload.in_edges] = True
    assert found.equal(expected)


def test_check_memory_refuses_what_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "free_bytes", lambda device: 2 << 30)
    check_memory(1 << 30, CPU)
    with pytest.raises(MemoryError, match="needs about 3 GiB, 2 GiB are free"):
        check_memory(3 << 30, CPU)
    monkeypatch.setattr(peers, "free_bytes", lambda device: None)
    check_memory(1 << 60, CPU)
