from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given

from graphut.topology import Causal, Complete, Global, Random, Topology, Window, from_edges, parse
from tests.helpers import refuses
from tests.topology import brute
from tests.topology.brute import Back

MALFORMED = ["", "& causal", "causal |", "(causal", "causal)", "()", "causal(causal)"]


@dataclass(frozen=True)
class Two(Back):
    name = "test_two"
    spread: int = 5


@given(brute.topologies | brute.with_extra_nodes)
def test_parse_is_the_inverse_of_spec(topology: Topology) -> None:
    assert parse(topology.spec()) == topology


def test_parse_reads_specs() -> None:
    assert parse(" window : 8 ") == Window(8)
    assert parse("window:8|causal") == (Window(8) | Causal())
    assert parse("window:1|causal&complete") == (Window(1) | (Causal() & Complete()))
    assert parse("(window:1|causal)&complete") == ((Window(1) | Causal()) & Complete())
    assert parse("complete|window:1|causal") == (Complete() | Window(1)) | Causal()
    assert parse("test_two:1,2") == Two(1, 2)
    assert parse("test_two:1") == Two(1, 5)
    assert parse("global: 3 , 0") == Global(0, 3)
    assert parse("random:8 @ -7") == Random(8, -7)
    assert parse("window:1|random:8@7&causal") == (Window(1) | Random(8, 7) & Causal())
    assert parse("random:8@12345678901234567890") == Random(8, 12345678901234567890)


def test_parse_reads_a_spec_with_many_edges() -> None:
    topology = from_edges(range(20_000), range(1, 20_001))
    assert parse(topology.spec()) == topology


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        *((spec, "^.* is not a topology: write | or & between") for spec in MALFORMED),
        ("causal|windw:8", r"topology 'windw': did you mean window\?; import .* MODULE\)$"),
        ("causal|mine:8", "topology 'mine': known are axial, .*, window; import the"),
        ("causal causal", "'causal causal' is not a topology such as"),
        ("causal & window:x", "^'window:x' is not a topology such as"),
        ("window", r"window takes integers for radius, got \[\]"),
        ("causal:3", r"causal takes no integers, got \[3\]"),
        ("window:1@7", "window takes no seed"),
        ("random:8@7@8", "^'random:8@7@8' is not a topology such as"),
        ("causal|global", "global: needs at least one position"),
        ("star&virtual:1", "'star' and 'virtual:1' both have extra nodes"),
    ],
)
def test_parse_refuses_malformed_specs(spec: str, words: str) -> None:
    refuses(words, parse, spec)


@pytest.mark.parametrize("spec", [None, 8, ["causal"]])
def test_parse_refuses_other_types(spec: Any) -> None:
    refuses("spec must be a string such as", parse, spec)
