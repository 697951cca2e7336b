from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given

from graphut.topology import Causal, Complete, Global, Random, Topology, Window, from_edges, parse
from tests.helpers import refuses
from tests.topology import brute
from tests.topology.brute import Back


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
    ("spec", "place", "words"),
    [
        ("", 0, "expected a topology, got the end"),
        ("& causal", 0, "expected a topology, got '&'"),
        ("causal|windw:8", 7, r"topology 'windw': did you mean window\?; import .* MODULE\)\n"),
        ("causal|mine:8", 7, "topology 'mine': known are axial, .*, window; import the"),
        ("causal causal", 7, "expected '|', '&' or the end, got 'causal'"),
        ("(causal", 7, r"expected '\)', got the end"),
        ("causal & window:x", 16, "expected an integer, got 'x'"),
        ("window", 0, r"window takes integers for radius, got \[\]"),
        ("causal:3", 0, r"causal takes no integers, got \[3\]"),
        ("window:1@7", 0, "window takes no seed"),
        ("random:8@x", 9, "expected an integer, got 'x'"),
        ("random:8@7@8", 10, "expected '|', '&' or the end, got '@'"),
        ("causal|global", 7, "global: needs at least one position"),
        ("star&virtual:1", 4, "'star' and 'virtual:1' both have extra nodes"),
    ],
)
def test_parse_errors_point_at_the_position(spec: str, place: int, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        parse(spec)
    assert str(caught.value).splitlines()[1:] == [f"    {spec}", f"    {' ' * place}^"]


@pytest.mark.parametrize("spec", [None, 8, ["causal"]])
def test_parse_refuses_other_types(spec: Any) -> None:
    refuses("spec must be a string such as", parse, spec)
