from __future__ import annotations

from pathlib import Path

import pytest

from graphut.experiments.cli.run_options import read_options
from tests.experiments.cli.tiny import describe_run


def test_read_options_leaves_out_options_of_generation_that_are_not_given(tmp_path: Path) -> None:
    folder = describe_run(tmp_path / "run", "sort")
    options = vars(read_options("generate", [folder, "a b", "--beam-size", "3", "c"]))
    assert (options["texts"], options["beam_size"]) == (["a b", "c"], 3)
    assert "temperature" not in options and options["input"] is None


@pytest.mark.parametrize("command", ["eval", "show", "info"])
def test_read_options_refuses_an_option_of_another_command(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        read_options(command, ["run", "--plain"])
    assert f"graphut {command} --help" in capsys.readouterr().err
