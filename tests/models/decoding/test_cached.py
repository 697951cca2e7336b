import torch

from graphut.models.decoding.cached import RaggedCache
from tests.models.cases import SOURCES, build_model


def test_cached_decoder_computes_each_token_once() -> None:
    model, rows = build_model(), []
    model.target_embedding.register_forward_hook(lambda m, args, _: rows.append(len(args[0])))
    model.generate(SOURCES, max_length=6, beam_size=3)
    assert rows[0] == 3 and len(rows) > 3 and max(rows) <= 9


def test_ragged_cache_keeps_one_row_for_each_write() -> None:
    cache = RaggedCache(100)
    for _ in range(50):
        cache.write(cache.add_nodes(2), 1, torch.zeros(2, 8))
    assert cache._rows is not None and cache._rows.shape[0] <= 2 * 100 + 2
