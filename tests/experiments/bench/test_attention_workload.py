import pytest
import torch

from graphut.experiments.bench import attention_workload
from tests.experiments.bench.cases import SPECS, small_call
from tests.helpers import assert_same


def test_attention_workload_frontier_is_a_sorted_part_of_the_nodes() -> None:
    part = small_call(shape="1x20", fraction=0.3)
    assert part.frontier is not None
    assert part.frontier.equal(part.frontier.unique())
    query, key, _, upstream = part.tensors
    assert len(query) == len(upstream) == 6 and len(key) == 20
    assert part.flops == 14 * int((part.frontier + 1).sum()) * 8  # causal


@pytest.mark.parametrize("spec", SPECS)
def test_reference_is_the_same_by_both_backends(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    workload = small_call(spec=spec, fraction=0.5, dtype=torch.bfloat16)
    by_dense = workload.reference()
    monkeypatch.setattr(attention_workload, "_DENSE_SCORES", 0)
    assert_same(workload.reference(), by_dense)
    assert [x.dtype for x in by_dense] == [torch.float64] * 4
