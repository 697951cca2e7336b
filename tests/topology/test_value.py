from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from graphut.topology import Causal, Complete, Topology, Window, parse
from tests.topology.brute import Back


def test_named_value_is_frozen() -> None:
    assert Window(3) == Window(3) and Window(3) != Window(4) and Causal() != Complete()
    assert hash(Window(3) | Causal()) == hash(Window(3) | Causal())
    with pytest.raises(FrozenInstanceError):
        Window(3).radius = 4  # type: ignore[misc]


def test_str_is_the_spec() -> None:
    assert str(Window(8)) == Window(8).spec() == "window:8"
    assert repr(Window(8)) == "Window(radius=8)"


def test_named_value_refuses_fields_that_are_no_integers() -> None:
    for value in (1.5, "2", True):
        with pytest.raises(TypeError, match="window: radius must be an integer"):
            Window(value)  # type: ignore[arg-type]


def test_named_value_needs_parameters_as_fields() -> None:
    class Shift(Topology):
        name = "test_shift"

        def __init__(self, k: int) -> None:
            self.k = k

        def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
            return torch.arange(len(dst)), dst + self.k

    with pytest.raises(TypeError, match=r"Shift .* decorate it with @dataclass\(frozen=True\)"):
        Shift(3)


@pytest.mark.parametrize("name", [None, 3, "", "Upper", "with-dash", "2d"])
def test_named_value_needs_its_own_name(name: Any) -> None:
    body = {} if name is None else {"name": name}
    with pytest.raises(TypeError, match="needs its own name"):
        type("Mine", (Causal,), body)


def test_name_is_taken_once_but_may_be_defined_again() -> None:
    with pytest.raises(TypeError, match=r"'causal', which graphut\.topology\.dense\.Causal"):
        type("Mine", (Causal,), {"name": "causal"})

    def define(default: int) -> type[Topology]:
        @dataclass(frozen=True)
        class Again(Back):
            name = "test_again"
            steps: int = default

        return Again

    first = define(1)
    assert parse("test_again") == first(1)
    second = define(2)
    assert parse("test_again") == second(2) != first(2)


@dataclass(frozen=True)
class Jump(Topology, minimum={"steps": 0, "times": 3}):
    name = "test_jump"
    steps: int
    times: int

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        return torch.arange(len(dst)), dst - self.steps * self.times


def test_named_value_names_a_field_below_its_minimum() -> None:
    assert Jump(0, 3).spec() == "test_jump:0,3"
    with pytest.raises(ValueError, match="test_jump: times must be at least 3, got 2"):
        Jump(0, 2)
    with pytest.raises(ValueError, match="test_jump: steps must not be negative, got -1"):
        Jump(-1, 3)
