from __future__ import annotations

import pytest

from graphut.experiments.cli import COMMANDS
from graphut.experiments.cli.parsers import PARSERS


@pytest.mark.parametrize("command", PARSERS)
def test_parsers_of_commands_help_and_refuse(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = PARSERS[command]()
    assert command in COMMANDS and f"usage: graphut {command} " in parser.format_help()
    with pytest.raises(SystemExit):
        parser.parse_args(["run", "--devise", "cpu"])
    said = capsys.readouterr().err
    assert said.startswith("graphut: ") and said.count("\n") == 1


def test_parser_of_eval_has_the_options_of_generation_that_change_answers() -> None:
    arguments = PARSERS["eval"]().parse_args(["run", "--beam-size", "4", "--device", "cpu"])
    assert vars(arguments) == {
        "folder": "run", "set": None, "data": None, "results": None, "curves": None,
        "device": "cpu", "beam_size": 4,
    }  # fmt: skip
    with pytest.raises(SystemExit):
        PARSERS["eval"]().parse_args(["run", "--temperature", "2"])
