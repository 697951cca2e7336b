from __future__ import annotations

import pytest

from graphut.experiments.cli.bench_options import read_bench_options


def test_read_bench_options_has_the_command_without_its_table() -> None:
    words = ["--nodes", "9", "--results", "a.csv", "--peers", "--cold"]
    options = read_bench_options(["attention", *words])
    assert options.command == "graphut bench attention --nodes 9 --peers --cold"
    assert (options.what, options.results, options.others) == ("attention", "a.csv", [])
    assert read_bench_options(["scaling", "--results=a.csv"]).command == "graphut bench scaling"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("", "the following arguments are required: WHAT"),
        ("fly", "argument WHAT: invalid choice: 'fly'"),
        ("scaling --nodes many", "argument --nodes: invalid int value: 'many'"),
        ("gpu", "the following arguments are required: --results"),
    ],
)
def test_read_bench_options_refuses_in_one_line(
    argv: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        read_bench_options(argv.split())
    assert ended.value.code == 2
    text = capsys.readouterr().err
    assert message in text and text.startswith("graphut: ") and text.count("\n") == 1
