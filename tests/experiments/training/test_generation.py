import pytest

from graphut.experiments.training.generation import steps_table

NARROW = ["aa", "1", "b", "2", "cc", "10", "d", "4"]  # a token may be wider than the room


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
