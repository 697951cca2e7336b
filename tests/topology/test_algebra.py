from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from graphut.topology import Causal, Topology, Virtual, Window, node_positions
from tests.helpers import refuses


@dataclass(frozen=True)
class Listed(Topology):
    """Two extra nodes, whose spans are looked up by their numbers."""

    name = "listed"

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        return torch.arange(len(dst)), dst

    def extra_nodes(self, n: Tensor) -> Tensor:
        return torch.full_like(n, 2)

    def extra_spans(self, extra: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
        first = torch.tensor([0, 1])[extra]
        return first, torch.minimum(first + 1, n)


@pytest.mark.parametrize("operator", ["and", "or"])
def test_topologies_refuse_the_operators_of_python(operator: str) -> None:
    """`Window(2) and Causal()` would be `Causal()`, and with `or` it would be `Window(2)`."""
    with pytest.raises(TypeError, match=r"window:2 is neither .* with & and ., not"):
        eval(f"Window(2) {operator} Causal()", {"Window": Window, "Causal": Causal})
    for each in (Window(2) & Causal(), Window(2) | Causal(), Virtual(3)):
        refuses("neither true nor false", lambda each=each: not each)


def test_union_asks_each_side_for_its_own_extra_nodes_only() -> None:
    own = node_positions(Listed(), [3]).tolist()
    both = node_positions(Listed() | Virtual(3), [3]).tolist()
    assert both[:5] == own
    assert node_positions(Virtual(3) | Listed(), [3]).tolist() == [*own[:3], *both[5:], *own[3:]]
    mask = ((Listed() | Virtual(3)) & Causal()).mask(3)
    assert torch.equal(mask[:5, :5], (Listed() & Causal()).mask(3))
