from __future__ import annotations

import torch
from torch import Tensor

from graphut.experiments.bench.contender import Contender, Entry
from tests.experiments.bench.cases import problem


def add(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return query + 2 * key + 3 * value


class Doubled:
    """A form in which every number is twice as large."""

    def spread(self, rows: Tensor) -> Tensor:
        return 2 * rows

    def back(self, table: Tensor) -> Tensor:
        return table / 2


def test_an_entry_returns_output_and_gradients() -> None:
    case = problem()
    out, *gradients = Entry(case, Contender(add))()
    assert out.equal(add(*case.inputs))
    assert torch.equal(torch.stack(gradients), torch.stack([case.upstream * x for x in (1, 2, 3)]))


def test_forward_only() -> None:
    (out,) = Entry(problem(forward_only=True), Contender(add))()
    assert not out.requires_grad


def test_results_come_back_from_the_contenders_form() -> None:
    case = problem()
    out, to_query, to_key, _ = Entry(case, Contender(add, Doubled(), Doubled())).packed()
    assert out.equal(add(*case.inputs))
    assert to_query.equal(case.upstream) and to_key.equal(2 * case.upstream)
