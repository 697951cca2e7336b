import torch

from graphut.models.decoders import StepCache
from tests.models.cases import SOURCES, build_model


def test_cached_decoder_computes_each_token_once() -> None:
    model, rows = build_model(), []
    model.target_embedding.register_forward_hook(lambda m, args, _: rows.append(len(args[0])))
    model.generate(SOURCES, max_length=6, beam_size=3)
    assert rows[0] == 3 and len(rows) > 3 and max(rows) <= 9


def test_step_cache_repeats_the_last_vector_of_a_node_and_grows() -> None:
    cache = StepCache(3)
    assert cache.capacity(2) >= 2
    cache.write(0, None, 1, torch.tensor([[1.0], [2.0]]))
    cache.write(0, torch.tensor([1]), 2, torch.tensor([[5.0]]))
    assert 500 <= cache.capacity(500) < 1000
    cache.write(498, torch.tensor([1]), 3, torch.tensor([[7.0]]))
    assert cache.at(1)[:2].flatten().tolist() == [1.0, 2.0]
    assert cache.at(3)[[0, 1, 499]].flatten().tolist() == [1.0, 5.0, 7.0]
