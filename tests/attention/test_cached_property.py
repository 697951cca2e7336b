from __future__ import annotations

from dataclasses import dataclass

import torch

from graphut.attention.cached_property import cached_property


@dataclass(frozen=True)
class Square:
    side: torch.Tensor

    @cached_property
    def area(self) -> torch.Tensor:
        """The area."""
        return self.side * self.side


def test_cached_property_is_made_once_also_on_frozen_instances_and_compiles() -> None:
    square = Square(torch.tensor(3))
    assert square.area == 9 and square.area is square.area
    assert Square.area.__doc__ == "The area."
    compiled = torch.compile(lambda x: Square(x).area, fullgraph=True, backend="eager")
    assert compiled(torch.tensor(3)) == 9
