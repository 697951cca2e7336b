from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphut.attention import as_layout
from graphut.sentences import CROSS, DECODE, ENCODE, sentence_graph, target_labels
from graphut.topology import Topology, Window, node_positions, parse, token_nodes
from graphut.topology.cross import cross_layout
from tests.helpers import refuses
from tests.topology.brute import brute_mask


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


tokens = st.integers(2, 30)
sentence_pairs = st.lists(
    st.tuples(st.lists(tokens, min_size=1, max_size=6), st.lists(tokens, max_size=6)),
    min_size=1,
    max_size=5,
).map(lambda pairs: ([source for source, _ in pairs], [target for _, target in pairs]))
topologies = {
    "encoder": ["complete", "window:1", "window:0|test_comb:3"],
    "decoder": ["causal", "window:2&causal", "causal&test_comb"],
    "cross": ["complete", "causal", "test_comb:2"],
}


@given(
    sentence_pairs, st.fixed_dictionaries({k: st.sampled_from(v) for k, v in topologies.items()})
)
def test_sentence_graph_is_the_disjoint_union_of_its_pairs(
    pairs: tuple[list[list[int]], list[list[int]]], specs: dict[str, str]
) -> None:
    sources, targets = pairs
    graph = sentence_graph(sources, targets, **specs)
    assert {*graph.canonical_etypes} == {ENCODE, DECODE, CROSS}

    source, target = graph.nodes["source"].data, graph.nodes["target"].data
    assert source["token"].tolist() == [t for s in sources for t in s]
    assert source["position"].tolist() == [i for s in sources for i in range(1, len(s) + 1)]
    assert target["token"].tolist() == [t for s in targets for t in [0, *s]]
    assert target["label"].tolist() == [t for s in targets for t in [*s, 1]]
    assert target["position"].tolist() == [i for s in targets for i in range(1, len(s) + 2)]

    n, m = [len(s) for s in sources], [len(s) + 1 for s in targets]
    assert graph.batch_num_nodes("source").tolist() == n
    assert graph.batch_num_nodes("target").tolist() == m
    sides = (ENCODE, "encoder", n, n), (DECODE, "decoder", m, m), (CROSS, "cross", m, n)
    for etype, key, dst, src in sides:
        topology = parse(specs[key])
        masks = [brute_mask(topology, *size) for size in zip(dst, src, strict=True)]
        from_, to = graph.edges(etype=etype, order="eid")
        assert [to.tolist(), from_.tolist()] == torch.block_diag(*masks).nonzero().T.tolist()
        assert graph.batch_num_edges(etype).tolist() == [int(mask.sum()) for mask in masks]
        layout = as_layout(graph, etype)
        assert layout.dst_lengths.tolist() == dst
        assert layout.src_lengths.tolist() == src
        row, kept, _ = layout.in_edges()
        assert [row.tolist(), kept.tolist()] == [to.tolist(), from_.tolist()]


def test_sentence_graph_without_targets_has_only_sources() -> None:
    graph = sentence_graph([[5, 6], [7]], encoder=Window(0))
    assert graph.ntypes == ["source"]
    assert graph.canonical_etypes == [ENCODE]
    assert graph.num_edges() == 3


@pytest.mark.parametrize("where", ["sources", "targets"])
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
def test_sentence_graph_quotes_bad_tokens(
    where: str, bad: Any, error: type[Exception], words: str
) -> None:
    arguments: dict[str, Any] = {"sources": [[2], [3]], "targets": [[2], [3]], where: bad}
    with pytest.raises(error, match=f"^{where}.*{words}"):
        sentence_graph(**arguments)


def test_sentence_graph_refuses_an_empty_source_and_another_number_of_targets() -> None:
    refuses(r"sources\[1\] is empty", sentence_graph, [[2], [], []])
    refuses("2 sources but 1 targets", sentence_graph, [[2], [3]], [[2]])


@pytest.mark.parametrize("decoder", ["complete", "window:1", "star", "virtual:1|causal"])
def test_sentence_graph_refuses_a_decoder_that_sees_the_future(decoder: str) -> None:
    for targets in ([[]], [[5] * 9]):
        refuses(f"{decoder!r} is not causal", sentence_graph, [[2]], targets, decoder=decoder)


def test_sentence_graph_checks_the_decoder_at_the_lengths_of_the_batch() -> None:
    late = "test_late:5001"
    assert parse(late).is_causal()  # which tries shorter sentences
    sentence_graph([[2]], [[5] * 5000], decoder=late)
    refuses("attend to later", sentence_graph, [[2]], [[5] * 5001], decoder=late)


@pytest.mark.parametrize("decoder", ["causal", "star&causal", "binary_partition:1&causal"])
@pytest.mark.parametrize("encoder", ["window:1", "star", "window:1|virtual:2"])
def test_sentence_graph_gives_extra_nodes_no_token_and_no_label(encoder: str, decoder: str) -> None:
    sources, targets = [[5, 6, 7], [8]], [[9, 2], [3, 4, 5]]
    graph = sentence_graph(sources, targets, encoder=encoder, decoder=decoder, cross="window:0")
    sizes = {"source": (parse(encoder), [3, 1]), "target": (parse(decoder), [3, 4])}
    for side, (topology, lengths) in sizes.items():
        data, rows = graph.nodes[side].data, token_nodes(topology, lengths)
        extra = torch.ones(graph.num_nodes(side), dtype=torch.bool)
        extra[rows] = False
        assert torch.equal(data["position"], node_positions(topology, lengths))
        assert set(data["token"][extra].tolist()) <= {-1}
        assert graph.batch_num_nodes(side).tolist() == [topology.num_nodes(n) for n in lengths]
    source, rows = graph.nodes["source"].data, token_nodes(*sizes["source"])
    assert source["token"][rows].tolist() == [5, 6, 7, 8]
    target, rows = graph.nodes["target"].data, token_nodes(*sizes["target"])
    assert target["token"][rows].tolist() == [0, 9, 2, 0, 3, 4, 5]
    assert target_labels(graph).tolist() == [9, 2, 1, 3, 4, 5, 1]
    sides = {"encoder": parse(encoder), "decoder": parse(decoder)}
    expected = cross_layout("window:0", [3, 4], [3, 1], **sides).in_edges()[1::-1]
    assert torch.equal(torch.stack(graph.edges(etype=CROSS)), torch.stack(expected))
