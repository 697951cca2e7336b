import torch
from hypothesis import given
from hypothesis import strategies as st

from graphut.topology import Causal, Complete, Star, Topology, parse, token_nodes
from graphut.topology.cross import cross_layout
from tests.topology import brute

COVERING = ["complete", "causal", "window:2", "window:0|test_comb", "test_back:1|window:0"]


def reaching_mask(topology: Topology, n_dst: int, n_src: int) -> torch.Tensor:
    """Return the mask in which a row beyond the source equals that of the last source."""
    mask = brute.brute_batch_mask(topology, [max(n_dst, n_src)], [n_src])
    return mask[torch.arange(n_dst).clamp(max=n_src - 1)]


@given(
    st.sampled_from(COVERING),
    st.sampled_from([Causal(), parse("star&causal"), parse("binary_partition:1&causal")]),
    st.sampled_from([Complete(), Star(), parse("window:1|virtual:2")]),
    st.lists(st.tuples(brute.lengths, brute.lengths), min_size=1, max_size=3),
)
def test_cross_layout_has_edges_between_tokens_only(
    spec: str, decoder: Topology, encoder: Topology, sizes: list[tuple[int, int]]
) -> None:
    n, m = (list(lengths) for lengths in zip(*sizes, strict=True))
    layout = cross_layout(spec, n, m, decoder=decoder, encoder=encoder)
    expected = torch.zeros(layout.num_dst, layout.num_src, dtype=torch.bool)
    masks = [reaching_mask(parse(spec), *size) for size in sizes]
    rows, columns = token_nodes(decoder, n), token_nodes(encoder, m)
    expected[rows[:, None], columns] = torch.block_diag(*masks)
    row, source, _ = layout.in_edges()
    assert torch.equal(torch.stack([row, source], 1), expected.nonzero())
    assert layout.dst_lengths.tolist() == [decoder.num_nodes(length) for length in n]
    assert layout.src_lengths.tolist() == [encoder.num_nodes(length) for length in m]
