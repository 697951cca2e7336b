import torch

from graphut.experiments.bench.plain_torch import PlainModel
from graphut.models import UniversalTransformerLM, UniversalTransformerLMConfig


def test_plain_model_does_not_read_padding() -> None:
    torch.manual_seed(0)
    sizes = {"d_model": 8, "num_heads": 2, "d_hidden": 16, "halting_gain": 3.0}
    ours = UniversalTransformerLM(UniversalTransformerLMConfig(vocab_size=9, **sizes))
    model, texts = PlainModel(ours.eval()), [[2, 3, 4, 5, 6], [7, 8]]
    loss, cost = model(texts, texts, 0.0)
    alone = [model([text], [text], 0.0) for text in texts]
    weights = torch.tensor([5 / 7, 2 / 7])
    for whole, parts in zip((loss, cost), zip(*alone, strict=True), strict=True):
        torch.testing.assert_close(whole, weights @ torch.stack(parts))
