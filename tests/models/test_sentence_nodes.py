import math
from collections import Counter
from itertools import chain, permutations, product
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from graphut._tokens import EOS
from graphut.models.sentence_nodes import SentenceNodes, draw_positions
from graphut.nn import call
from graphut.sentences import sentence_graph
from graphut.topology import Topology, parse
from tests.helpers import refuses
from tests.models.cases import SOURCES, TARGETS, build_model, logits_of

SENTENCES = [[5, 3, 4], [2]]


def read(graph_spec: str, topology: Topology) -> SentenceNodes:
    graph = sentence_graph(SENTENCES, encoder=graph_spec)
    return SentenceNodes.from_graph(graph, "source", topology)


def test_from_graph_refuses_a_graph_that_is_not_divided_into_sentences() -> None:
    graph = sentence_graph(SENTENCES)
    graph.add_edges([0], [2], etype="encode")  # DGL drops the batch
    arguments = graph, "source", parse("complete")
    refuses("source nodes .* are no longer divided into", SentenceNodes.from_graph, *arguments)


@pytest.mark.parametrize(
    ("graph_spec", "spec"), [("star", "complete"), ("complete", "star"), ("virtual:2", "star")]
)
def test_from_graph_refuses_a_graph_of_another_topology(graph_spec: str, spec: str) -> None:
    refuses(f"source nodes .* do not fit .* '{spec}': make the", read, graph_spec, parse(spec))


def test_positions_interpolate_between_drawn_positions() -> None:
    nodes = read("window:1|virtual:2", parse("window:1|virtual:2"))
    drawn = torch.tensor([[3, 7, 8, 20], [0, 10, 11, 12]])
    assert nodes.redrawn(nodes.position, drawn).tolist() == [7, 8, 20, 3, -1, 10, 0, -10]
    star = read("star", parse("star"))
    assert star.redrawn(star.position, drawn).tolist() == [7, 8, 20, 8, 10, 10]
    assert star.redrawn(star.position + 0.5, drawn).tolist() == [7.5, 14, 26, 14, 10.5, 10.5]


lengths = st.lists(st.integers(1, 9), min_size=1, max_size=5).map(torch.tensor)


@given(lengths, st.integers(0, 30), st.booleans(), st.integers(0, 1000))
def test_draw_positions_increase_and_stay_within_the_offset(
    lengths: torch.Tensor, room: int, spread: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    drawn = draw_positions(lengths, room, spread=spread)
    assert drawn.shape == (len(lengths), int(lengths.max()) + 1) and drawn.dtype == torch.int64
    for row, length in zip(drawn, lengths.tolist(), strict=True):
        own, after = row[: length + 1], row[length:]
        assert int(own[0]) >= 0 and int(own[-1]) <= length + room
        assert bool((own.diff() >= 1).all()) and bool((after.diff() == 1).all())
        if not spread:
            assert bool((own.diff() == 1).all())


def runs_of_two(width: int, run: int) -> list[tuple[int, ...]]:
    """The two smallest numbers below `width` in each order of its runs of `run` numbers."""
    runs = [range(first, min(first + run, width)) for first in range(0, width, run)]
    return [tuple(sorted([*chain(*order)][:2])) for order in permutations(runs)]


def test_draw_positions_spread_has_the_documented_distribution() -> None:
    # 2 of 0..3, in ranges of width 2 to 4.
    torch.manual_seed(0)
    drawn = draw_positions(torch.ones(30_000, dtype=torch.int64), 2, spread=True)
    counts = Counter(map(tuple, drawn.tolist()))
    expected: Counter[tuple[int, ...]] = Counter()
    for width, run in product((2, 3, 4), (1, 2, 3, 4)):
        often = 30_000 * math.log((width + 1) / width) / math.log(5 / 2)
        often *= math.log((run + 1) / run if run < 4 else 32 / run, 32)
        pairs = runs_of_two(width, run)
        for start, pair in product(range(4 - width + 1), pairs):
            chance = 0.5 / (5 - width) + (0.5 if start == 0 else 0.0)
            expected[start + pair[0], start + pair[1]] += often * chance / len(pairs)
    assert counts.keys() == expected.keys()
    assert all(counts[s] == pytest.approx(expected[s], rel=0.1) for s in expected)


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The positions for which signals were computed: for sources, for targets, ..."""
    seen: list[Tensor] = []
    encode = call.encode

    def spy(signal: Any, positions: Tensor, feat: Tensor) -> Tensor:
        seen.append(positions)
        return encode(signal, positions, feat)

    monkeypatch.setattr(call, "encode", spy)
    return seen


def offsets(positions: Tensor, lengths: list[int]) -> list[int]:
    """The offset of each sentence, which all of its positions share."""
    parts = positions.split(lengths)
    found = [part - torch.arange(1, len(part) + 1) for part in parts]
    assert all(len(offset.unique()) == 1 for offset in found)
    return [int(offset[0]) for offset in found]


def test_model_positions_of_a_pair_share_one_random_offset_in_training(
    signals: list[Tensor],
) -> None:
    model, pairs = build_model(max_offset=3).train(), 200
    torch.manual_seed(0)
    for _ in range(2):
        model([[2, 3]] * pairs, [[2, 3, 4]] * pairs)
    source, target, later, _ = signals
    drawn = offsets(source, [2] * pairs)
    assert drawn == offsets(target, [4] * pairs) != offsets(later, [2] * pairs)
    assert all(30 < drawn.count(offset) < 70 for offset in range(4))


def test_model_positions_have_no_offset_in_evaluation() -> None:
    model = build_model(max_offset=3)
    assert torch.equal(logits_of(model), logits_of(build_model()))
    found = model.train().generate(SOURCES, max_length=2)
    assert found == build_model().generate(SOURCES, max_length=2)


def test_model_positions_of_bos_and_eos_are_outside_the_sentence(signals: list[Tensor]) -> None:
    logits_of(model := build_model(add_bos_eos=True))
    assert signals[0].tolist() == [*range(6), *range(3), *range(8)]
    assert signals[1].tolist() == [*range(1, 5), 1, *range(1, 7)]
    graph = model.sentence_graph([torch.tensor([3, 2]), [6]])
    assert graph.nodes["source"].data["token"].tolist() == [0, 3, 2, EOS, 0, 6, EOS]
    refuses("does not begin with <bos>", model, sentence_graph([[3, 2], [6]], [[2], [3]]))
    answers = model.generate([[3, 2], [6]], max_length=2)
    assert [len(answer.source_steps) for answer in answers] == [2, 1]


@pytest.mark.parametrize("framed", [False, True])
def test_model_positions_count_from_both_ends(signals: list[Tensor], framed: bool) -> None:
    options = {"add_bos_eos": framed, "source_positions": "both"}
    logits_of(build_model(**options))
    start, end = signals[0].T.tolist()
    edge = int(framed)
    expected = [list(range(1 - edge, n + 1 + edge)) for n in (4, 1, 6)]
    assert start == [p for row in expected for p in row]
    assert end == [p for row in expected for p in row[::-1]]
    signals.clear()
    torch.manual_seed(2)
    logits_of(build_model(max_offset=30, spread_positions=True, **options).train())
    assert len(signals[1].diff().unique()) > 3
    parts = signals[0].split([len(row) for row in expected])
    assert all(torch.equal(part[:, 0], part[:, 1].flip(0)) for part in parts)
    target = signals[1].split([4, 1, 6])
    for part, answer, length in zip(parts, target, (4, 1, 6), strict=True):
        assert torch.equal(part[edge:, 0][:length], answer[:length])


@pytest.mark.parametrize(
    ("framed", "expected"),
    [
        (False, [[1, 2, 3, 1, 2, 1], [1], [1, 2]]),
        (True, [[0, 1, 2, 3, 1, 2, 1, 2], [0, 1, 1], [0, 1, 2, 3]]),
    ],
)
def test_model_positions_restart_after_a_separator(
    signals: list[Tensor], framed: bool, expected: list[list[int]]
) -> None:
    model = build_model(restart_after=2, add_bos_eos=framed, max_offset=9)
    sources = [[3, 4, 2, 5, 2, 3], [2], [4, 3]]
    model(sources, TARGETS)
    place = [p for row in expected for p in row]
    assert signals[0].tolist() == place
    signals.clear()
    model.train()(sources, TARGETS)
    offsets = (signals[0] - torch.tensor(place)).split(list(map(len, expected)))
    assert [len(part.unique()) for part in offsets] == [1, 1, 1]


def test_model_segment_embeddings_tell_equal_positions_apart() -> None:
    # The same as other tokens after the separator, whose embeddings are the sums.
    model = build_model(restart_after=2, segment_embedding=True)
    words = model.source_embedding.weight
    first, second = model.segment_embedding.weight
    plain = build_model(restart_after=2, source_vocab=2 * len(words))
    parameters = {k: v for k, v in model.state_dict().items() if k != "segment_embedding.weight"}
    parameters["source_embedding.weight"] = torch.cat([words + first, words + second])
    plain.load_state_dict(parameters)
    sources = [[3, 4, 2, 5, 3], [2, 6], [4, 3]]
    renamed = [[3, 4, 2, 5 + len(words), 3 + len(words)], [2, 6 + len(words)], [4, 3]]
    expected = plain(renamed, TARGETS).logits
    assert torch.allclose(model(sources, TARGETS).logits, expected, atol=1e-6)
    answers, same = model.generate(sources, max_length=4), plain.generate(renamed, max_length=4)
    assert [each.tokens for each in answers] == [each.tokens for each in same]
