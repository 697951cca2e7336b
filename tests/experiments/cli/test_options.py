from argparse import ArgumentParser
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from graphut.experiments.cli.options import add_options, build


@dataclass(frozen=True)
class Shape:
    size: int = field(metadata={"help": "edge, in cm"})
    share: float = field(default=0.5, metadata={"help": "in % of all"})
    hollow: bool = field(default=False, metadata={"help": "without a core"})
    colour: Literal["red", "blue"] = field(default="red", metadata={"help": "of the outside"})
    long_name: str | None = field(default=None, metadata={"help": "in full"})
    made_of: list[str] = field(default_factory=list, metadata={"help": "never an option"})


def parse(*argv: str) -> dict[str, Any]:
    return vars(parser(Shape).parse_args(argv))


def parser(kind: Any, **options: Any) -> ArgumentParser:
    made = ArgumentParser(add_help=False)
    add_options(made.add_argument_group("shape"), kind, ["made_of"], **options)
    return made


def help_text(kind: Any, **options: Any) -> str:
    return " ".join(parser(kind, **options).format_help().split())


def test_add_options_reads_values_as_their_types() -> None:
    argv = ["--size", "3", "--share", ".25", "--hollow", "--colour", "blue", "--long-name", "x"]
    values = {"size": 3, "share": 0.25, "hollow": True, "colour": "blue", "long_name": "x"}
    assert parse(*argv) == values
    assert parse("--no-hollow") == {"hollow": False} and parse() == {}


def test_add_options_help_has_every_field_with_its_default() -> None:
    text = help_text(Shape)
    assert "--size N edge, in cm (required)" in text
    assert "--share X in % of all (default: 0.5)" in text
    assert "--hollow, --no-hollow without a core (default: False)" in text
    assert "--colour {red,blue} of the outside (default: red)" in text
    assert "--long-name TEXT in full" in text
    assert "made" not in text


def test_add_options_help_has_the_presets() -> None:
    presets = {
        "small": {"colour": "blue"},
        "large": {"colour": "red", "size": 9},
        "wide": {"colour": "blue", "size": 9},
    }
    text = help_text(Shape, presets=presets)
    assert "of the outside (default: blue; large: red)" in text
    assert "edge, in cm (required; large, wide: 9)" in text


def test_build_takes_the_options_that_are_fields() -> None:
    options = {"size": 3, "share": 0.25, "foreign": 1}
    assert build(Shape, options) == Shape(3, 0.25)
    assert build(Shape, {"share": 0.25}, size=4) == Shape(4, 0.25)
    with pytest.raises(ValueError, match="--size is missing: edge, in cm"):
        build(Shape, {"share": 0.25})
