from __future__ import annotations

import torch
from torch import Tensor

from graphut.attention import EdgeLayout, edge_attention
from graphut.attention.buckets import Buckets, PaddedIndex, make_buckets
from graphut.attention.tiles import find_tiles
from graphut.topology import Causal, Complete, Window
from tests.attention.naive import inputs
from tests.helpers import assert_same, normal


def buckets_of(layout: EdgeLayout, frontier: Tensor | None = None) -> Buckets:
    tiles = find_tiles(layout)
    cuts = tiles.cuts if frontier is None else torch.searchsorted(frontier, tiles.cuts)
    return make_buckets(layout, frontier, cuts, tiles.low, tiles.high, tiles.partition)


def test_make_buckets_puts_tiles_of_like_size_together() -> None:
    buckets = buckets_of(Complete().layout([5, 30, 1, 8, 20, 6]))
    assert [part.shape for part in buckets.parts] == [(1, 1, 1), (3, 8, 8), (2, 30, 30)]
    assert [part.mask.shape for part in buckets.parts] == [
        (1, 1, 1, 1),
        (3, 1, 8, 8),
        (2, 1, 30, 30),
    ]


def test_make_buckets_repeats_rows_and_masks_sources_of_padding() -> None:
    buckets = buckets_of(Causal().layout([3, 4]), torch.tensor([1, 2, 4]))
    assert buckets.rows.index.tolist() == [0, 1, 2, 2]
    assert buckets.sources.index.tolist() == [0, 1, 2, 2, 3, 4, 5, 6]
    (bucket,) = buckets.parts
    assert bucket.shape == (2, 2, 4)
    assert bucket.mask.int()[:, 0].tolist() == [
        [[1, 1, 0, 0], [1, 1, 1, 0]],
        [[1, 1, 0, 0], [1, 1, 0, 0]],
    ]


def test_make_buckets_gives_every_row_a_place_of_its_own() -> None:
    layout = Window(2).layout([8, 3, 1, 4, 6])
    buckets = buckets_of(layout)
    for padded in (buckets.rows, buckets.sources):
        assert padded.place is not None
        assert torch.equal(padded.index[padded.place], torch.arange(22))
    query, key, value = inputs(layout)
    expected = edge_attention(layout, query, key, value, backend="dense")
    assert_same([buckets.attend(query, key, value, 3**-0.5)], [expected])


def test_make_buckets_gives_idle_sources_no_place_and_shared_ones_several() -> None:
    idle = buckets_of(Complete().layout([2, 3]), torch.tensor([3])).sources.place
    assert idle is not None and idle.tolist() == [-1, -1, 0, 1, 2]
    assert buckets_of(Causal().layout([2, 1], [3, 4])).sources.place is None


def test_padded_index_drops_gradients_of_padding() -> None:
    rows = normal(3, 2)
    table = PaddedIndex(torch.tensor([0, 1, 1]), torch.tensor([0, 1, -1])).pad(rows)
    assert_same([table], [rows[[0, 1, 1]]])
    (grad,) = torch.autograd.grad(table.sum(), rows)
    assert grad.tolist() == [[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]]
