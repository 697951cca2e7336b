import torch

from graphut.experiments.bench.padding import padded_mask, present_positions
from graphut.topology import Causal, Complete

LENGTHS = torch.tensor([2, 3])


def test_padded_mask_has_one_row_where_all_rows_are_equal() -> None:
    padded = present_positions(LENGTHS)
    for topology, rows in ((Complete(), 1), (Causal(), 3)):
        edges = topology.layout(LENGTHS).in_edges()[:2]
        assert padded_mask(padded, padded, edges).shape == (2, 1, rows, 3)
