from inspect import signature
from typing import Any

import pytest
import torch

from graphut.experiments.training import GenerationOptions
from graphut.experiments.training.generation import generate, steps_table
from graphut.models import UniversalTransformer

NARROW = ["aa", "1", "b", "2", "cc", "10", "d", "4"]  # a token may be wider than the room


class Recorder:
    """A model that keeps the options of each call."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def generate(self, prompts: list[list[int]], **options: Any) -> list[list[int]]:
        self.calls.append(options)
        return prompts


def test_generate_passes_the_defaults_of_the_model_and_a_seeded_generator() -> None:
    model: Any = Recorder()
    for seed in (1, 1, 2):
        assert [*generate(model, [[3]], GenerationOptions(seed=seed))] == [([3], [3])]
    first, again, other = (
        torch.rand(4, generator=options.pop("generator")) for options in model.calls
    )
    assert torch.equal(first, again) and not torch.equal(first, other)
    parameters = list(signature(UniversalTransformer.generate).parameters.values())[2:]
    assert model.calls[0] == {
        p.name: p.default for p in parameters if p.name not in ("generator", "get_attention")
    }


@pytest.mark.parametrize(
    ("width", "rows"),
    [
        (14, ["output  aa b", "steps   1  2", "output  cc d", "steps   10 4"]),
        (15, ["output  aa b cc", "steps   1  2 10", "output  d", "steps   4"]),
        (9, [f"output  {x}" if n % 2 == 0 else f"steps   {x}" for n, x in enumerate(NARROW)]),
    ],
)
def test_steps_table_breaks_rows_at_the_width_of_the_terminal(
    width: int, rows: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    table = steps_table("output", ["aa", "b", "cc", "d"], ["1", "2", "10", "4"])
    assert table.splitlines() == rows
