"""Compare the speed of greedy and beam decoding with Hugging Face's MarianMTModel.

    python examples/benchmarks/generation.py

Both have random weights, the same width and vocabulary, at most six steps or layers, and write 40
tokens for 30. It needs `pip install transformers`. Values are tokens a second.
"""

from functools import partial
from itertools import product
from typing import Any

import common
import torch

from graphut import UniversalTransformer, UniversalTransformerConfig

DEPTH, HEADS, WORDS, READ, WRITTEN, EOS = 6, 8, 1000, 30, 40, 1


def make_models(dim: int) -> list[Any]:
    from transformers import MarianConfig, MarianMTModel

    sizes = {"layers": DEPTH, "attention_heads": HEADS, "ffn_dim": 4 * dim}
    both: Any = {f"{side}_{k}": x for side in ("encoder", "decoder") for k, x in sizes.items()}
    both |= {"pad_token_id": 0, "eos_token_id": EOS, "decoder_start_token_id": 0}
    marian = MarianConfig(vocab_size=WORDS, d_model=dim, forced_eos_token_id=None, **both)
    sizes = {"source_vocab": WORDS, "target_vocab": WORDS, "d_model": dim, "d_hidden": 4 * dim}
    sizes |= {"num_heads": HEADS, "max_steps": DEPTH}
    models = [MarianMTModel(marian).eval()]
    for adaptive in (True, False):
        config = UniversalTransformerConfig(**sizes, adaptive=adaptive)
        models.append(UniversalTransformer(config).eval())
        models[-1].output.bias.data[EOS] = -1e4  # no sentence ends before the last token
    return models


@torch.inference_mode()
def bench_generation(dim: int, beams: int, sentences: int, repeats: int) -> list[common.Row]:
    """Return rows for Marian, and for our model with halting and without."""
    torch.manual_seed(0)
    source = torch.randint(3, WORDS, (sentences, READ))
    length = {"min_new_tokens": WRITTEN, "max_new_tokens": WRITTEN, "do_sample": False}
    marian, *ours = make_models(dim)
    runs = {"Marian": partial(marian.generate, source, num_beams=beams, **length)}
    for name, model in zip(("adaptive", "fixed depth"), ours, strict=True):
        runs[name] = partial(model.generate, source.tolist(), max_length=WRITTEN, beam_size=beams)
        assert all(len(answer.tokens) == WRITTEN for answer in runs[name]())
    title = f"{sentences} sentences, beams of {beams}, {dim} features"
    rows = common.time_in_turns(title, runs, repeats)
    return [{**row, "value": 1e3 * sentences * WRITTEN / row["ms"]} for row in rows]


if __name__ == "__main__":
    options = common.parse_options(__doc__, sentences=(1, 8, 64), beams=(1, 4), dim=128)
    sizes = product(options.beams, options.sentences)
    groups = (bench_generation(options.dim, *each, options.repeats) for each in sizes)
    common.report("generation", groups, options.results)
