from __future__ import annotations

from graphut.experiments.cli.bench_options import read_options


def test_read_options_has_the_command_without_its_table() -> None:
    words = ["--nodes", "9", "--results", "a.csv", "--peers", "--cold"]
    options = read_options("bench", ["attention", *words])
    assert options.command == "graphut bench attention --nodes 9 --peers --cold"
    assert (options.what, options.results, options.others) == ("attention", "a.csv", [])
    assert read_options("bench", ["scaling", "--results=a.csv"]).command == "graphut bench scaling"
