from argparse import ArgumentParser
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from graphut.experiments.cli.options import add_options, pick_device
from tests.helpers import refuses


@dataclass(frozen=True)
class Shape:
    size: int = field(metadata={"help": "edge, in cm"})
    share: float = field(default=0.5, metadata={"help": "in % of all"})
    hollow: bool = field(default=False, metadata={"help": "without a core"})
    colour: Literal["red", "blue"] = field(default="red", metadata={"help": "of the outside"})
    long_name: str | None = field(default=None, metadata={"help": "in full"})


def help_text(kind: Any, **options: Any) -> str:
    parser = ArgumentParser(add_help=False)
    add_options(parser.add_argument_group("shape"), kind, **options)
    return " ".join(parser.format_help().split())


def test_add_options_help_has_every_field_with_its_default() -> None:
    text = help_text(Shape)
    assert "--size N edge, in cm (required)" in text
    assert "--share X in % of all (default: 0.5)" in text
    assert "--hollow, --no-hollow without a core (default: False)" in text
    assert "--colour {red,blue} of the outside (default: red)" in text
    assert "--long-name TEXT in full" in text


def test_add_options_help_has_the_presets() -> None:
    presets = {
        "small": {"colour": "blue"},
        "large": {"colour": "red", "size": 9},
        "wide": {"colour": "blue", "size": 9},
    }
    text = help_text(Shape, presets=presets)
    assert "of the outside (default: blue; large: red)" in text
    assert "edge, in cm (required; large, wide: 9)" in text


def test_pick_device_takes_the_best_or_refuses_one_that_is_not_here() -> None:
    assert pick_device(None).type == ("cuda" if torch.cuda.is_available() else "cpu")
    refuses(r"there is no device 'cuda:99' here: .*$", pick_device, "cuda:99")
    refuses(r"there is no device 'abacus' here: .*$", pick_device, "abacus")
