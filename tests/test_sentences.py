from dataclasses import dataclass
from typing import Any

import pytest
import torch

from graphut.sentences import causal_layout, flatten, flatten_targets, target_labels
from graphut.topology import Topology, parse
from tests.helpers import refuses


@dataclass(frozen=True)
class Late(Topology):
    """The first token sees the token `at`, where there is one; every token sees itself."""

    name = "test_late"
    at: int

    def in_edges(
        self, dst: torch.Tensor, n_dst: torch.Tensor, n_src: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        first = (dst == 0).nonzero().flatten()
        row = torch.cat([torch.arange(len(dst)), first])
        return row, torch.cat([dst, torch.full_like(first, self.at)])


@pytest.mark.parametrize(
    ("bad", "error", "words"),
    [
        ([[2], [3, -4, -1]], ValueError, r"\[1\] contains -4"),
        ([[2], [3, 2.5]], TypeError, r"\[1\] contains 2.5"),
        ([[2], [True]], TypeError, r"\[1\] contains True"),
        ([[2], ["a", 3]], TypeError, r"\[1\] contains 'a'"),
        ([[2], "ab"], TypeError, r"\[1\] is 'ab'"),
        ([[2], torch.tensor(7)], TypeError, r"\[1\] is 7"),
        ([[2], torch.tensor([[1, 2]])], TypeError, r"\[1\] contains \[1, 2\]"),
        ([[2], {3, 4}], TypeError, r"\[1\] is {3, 4}: a sentence is a list"),
        (map(list, [[2], [3]]), TypeError, "must be a list of sentences, got <map object"),
        ([], ValueError, "is empty"),
    ],
)
def test_flatten_quotes_bad_tokens(bad: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=f"^words.*{words}"):
        flatten(bad, "words")


def test_flatten_refuses_an_empty_source_and_another_number_of_targets() -> None:
    refuses(r"sources\[1\] is empty", flatten, [[2], [], []], "sources", allow_empty=False)
    refuses("2 sources but 1 targets", flatten_targets, [[2]], 2)
    assert target_labels([torch.tensor([3, 5]), []]).tolist() == [3, 5, 1, 1]


@pytest.mark.parametrize("decoder", ["complete", "window:1", "star", "virtual:1|causal"])
def test_causal_layout_refuses_a_decoder_that_sees_the_future(decoder: str) -> None:
    for length in (1, 10):
        refuses(f"{decoder!r} is not causal", causal_layout, parse(decoder), torch.tensor([length]))


def test_causal_layout_checks_the_decoder_at_the_lengths_of_the_batch() -> None:
    late = parse("test_late:5001")
    assert late.is_causal()  # which tries shorter sentences
    causal_layout(late, torch.tensor([5001]))
    refuses("attend to later", causal_layout, late, torch.tensor([5002]))
