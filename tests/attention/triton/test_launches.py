from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

pytest.importorskip("triton", reason="needs triton")

from graphut.attention.triton.kernels import attention
from graphut.topology import Complete
from tests.attention.triton.cases import by_kernels, drawn


class Launches:
    """Launches a kernel, and keeps the numbers that a variant is compiled for."""

    def __init__(self, kernel: Any) -> None:
        self.kernel, self.arg_names = kernel, kernel.arg_names
        self.numbers: list[dict[str, Any]] = []

    def __getitem__(self, grid: Any) -> Any:
        def launch(**arguments: Any) -> None:
            constants = {name: x for name, x in arguments.items() if name != "most"}
            self.numbers.append(tree_map_only(Tensor, lambda _: None, constants))
            self.kernel[grid](**arguments)

        return launch


def test_kernels_have_one_variant_whatever_the_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("attention_forward", "attention_query", "attention_source")
    kernels = {name: Launches(getattr(attention, name)) for name in names}
    for name, kernel in kernels.items():
        monkeypatch.setattr(attention, name, kernel)
    for lengths, nodes in (([2], None), ([40, 3], None), ([40, 3], [0, 39, 41]), ([1, 1], [1])):
        layout = Complete().layout(lengths)
        options = {} if nodes is None else {"frontier": torch.tensor(nodes)}
        by_kernels(layout, drawn(layout, nodes and len(nodes), heads=1), **options)
    for kernel in kernels.values():
        one, other, *with_frontier = kernel.numbers
        assert one == other and len(with_frontier) == 2 and with_frontier[0] == with_frontier[1]
