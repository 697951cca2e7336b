from __future__ import annotations

import torch
from torch import Tensor

from graphut.experiments.bench.implementations import Implementation, PreparedRun
from tests.experiments.bench.cases import problem


def add(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return query + 2 * key + 3 * value


class Doubled:
    """A form in which every number is twice as large."""

    def pad(self, rows: Tensor) -> Tensor:
        return 2 * rows

    def unpad(self, table: Tensor) -> Tensor:
        return table / 2


def test_prepared_run_returns_output_and_gradients() -> None:
    case = problem()
    out, *gradients = PreparedRun(case, Implementation(add))()
    assert out.equal(add(*case.inputs))
    assert torch.equal(torch.stack(gradients), torch.stack([case.upstream * x for x in (1, 2, 3)]))


def test_prepared_run_forward_only() -> None:
    (out,) = PreparedRun(problem(forward_only=True), Implementation(add))()
    assert not out.requires_grad


def test_prepared_run_packed_unpads_results() -> None:
    case = problem()
    out, to_query, to_key, _ = PreparedRun(case, Implementation(add, Doubled(), Doubled())).packed()
    assert out.equal(add(*case.inputs))
    assert to_query.equal(case.upstream) and to_key.equal(2 * case.upstream)
