import math
from typing import Any

import pytest
import torch
from torch import Tensor

from graphut import Characters, Vocabulary
from tests.helpers import assert_same, refuses
from tests.models.cases import (
    EOS,
    SEARCHES,
    SOURCES,
    TARGETS,
    LatterHalf,
    assert_same_generations,
    build_language_model,
    build_model,
    logits_of,
    seeded,
)


@pytest.mark.parametrize("search", SEARCHES[:-1], ids=str)
@pytest.mark.parametrize(
    ("build", "sequences"),
    [(build_model, SOURCES), (build_language_model, [*SOURCES, [], [5], [4, 4, 4, 4]])],
)
def test_generate_is_independent_of_the_batch(
    build: Any, sequences: list[list[int]], search: dict[str, Any]
) -> None:
    model = build()
    alone = [model.generate([each], max_length=6, **search)[0] for each in sequences]
    assert_same_generations(model.generate(sequences, max_length=6, **search), alone)
    assert_same_generations(model.generate(sequences[::-1], max_length=6, **search), alone[::-1])


def test_generate_leaves_out_eos_and_counts_its_steps() -> None:
    model = build_model()
    model.output.bias.data[EOS] = 100.0
    for answer in model.generate(SOURCES):
        assert (answer.tokens, len(answer.steps)) == ([], 1)
    model.output.bias.data[EOS] = -100.0
    for answer in model.generate(SOURCES, max_length=4):
        assert len(answer.tokens) == len(answer.steps) == 4


@pytest.mark.parametrize("side", ["decoder_topology", "cross_topology"])
def test_generate_with_an_unstable_topology_warns_where_it_is_called(side: str) -> None:
    spec = LatterHalf.name if side == "decoder_topology" else f"{LatterHalf.name} | window:9"
    with pytest.warns(UserWarning, match=f"{LatterHalf.name}.*whole prefix") as record:
        build_model(**{side: spec}).generate(SOURCES, max_length=5, beam_size=2)
    assert [warning.filename for warning in record] == [__file__]


def test_generate_refuses_wrong_options() -> None:
    model = build_model(max_length=20)
    words = "an output of generate.max_length=21. has 21 tokens, but the model"
    refuses(words, model.generate, SOURCES, max_length=21)
    refuses("temperature must be positive.*got 0", model.generate, SOURCES, temperature=0.0)
    words = "^generate has no option 'num_beams'; it has max_length, beam_size, length_penalty"
    refuses(words, model.generate, SOURCES, num_beams=2)


@pytest.mark.parametrize("adaptive", [True, False])
@pytest.mark.parametrize(
    "name",
    [
        "source_embedding.weight",
        "target_embedding.weight",
        "encoder.step.transition.layers.0.weight",
        "decoder.step.attention.output.weight",
        "decoder.step.transition.layers.3.bias",
        "output.bias",
    ],
)
def test_generate_refuses_a_weight_that_is_not_a_number(adaptive: bool, name: str) -> None:
    model = build_model(adaptive=adaptive)
    model.get_parameter(name).data[2] = math.nan
    refuses(r"nan|NaN", model.generate, [[2, 3, 4, 5, 6]], max_length=5)


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_generate_never_takes_bos(search: dict[str, Any]) -> None:
    model = build_model()
    model.output.bias.data[0] = 50.0
    for answer in model.generate(SOURCES, max_length=4, **seeded(search)):
        assert 0 not in answer.tokens
        assert math.isfinite(answer.score)


def test_generate_is_free_of_dropout_and_gradients() -> None:
    plain, model = build_model(), build_model(dropout=0.5, attention_dropout=0.5).train()
    assert model.generate(SOURCES, max_length=5) == plain.generate(SOURCES, max_length=5)
    assert model(model.sentence_graph(SOURCES, TARGETS)).logits.requires_grad
    assert not torch.equal(logits_of(model), logits_of(plain))


@pytest.mark.parametrize(
    ("search", "add_bos_eos"), [({}, True), *((search, False) for search in SEARCHES)], ids=str
)
def test_generate_gives_the_attention_of_the_tokens_it_chose(
    search: dict[str, Any], add_bos_eos: bool
) -> None:
    model = build_model(add_bos_eos=add_bos_eos)
    found = model.generate(SOURCES, max_length=5, get_attention=True, **seeded(search))
    assert found == model.generate(SOURCES, max_length=5, **seeded(search))
    output = model(
        model.sentence_graph(SOURCES, [answer.tokens for answer in found]), get_attention=True
    )
    scores = output.logits.detach().log_softmax(-1)
    rows = scores.split([len(answer.tokens) + 1 for answer in found])
    for number, answer in enumerate(found):
        chosen = torch.tensor([*answer.tokens, EOS][: len(answer.steps)])
        likely = rows[number][: len(chosen)].gather(1, chosen[:, None])
        assert answer.score == pytest.approx(float(likely.sum()), abs=1e-10)
        assert answer.encoder is not None and answer.decoder is not None
        inner = slice(1, -1) if add_bos_eos else slice(None)
        assert answer.encoder.steps.tolist()[inner] == answer.source_steps
        assert answer.decoder.steps.tolist() == answer.steps
        both = [(answer.encoder.attention, output.encoder.attention)]
        both.append((answer.decoder.attention, output.decoder.attention))
        both.append((answer.decoder.cross_attention, output.decoder.cross_attention))
        for own, batch in both:
            assert own is not None and batch is not None
            assert_same([own.dense()], [trimmed(batch.dense(number), own.dense())])


def trimmed(table: Tensor, like: Tensor) -> Tensor:
    """The first steps, queries and keys: others in the batch go on, or a token was cut off."""
    assert not table[len(like) :, :, : like.shape[2]].any()
    return table[: like.shape[0], :, : like.shape[2], : like.shape[3]]


@pytest.mark.parametrize("prompts", [[[2, 3], [], [4]], [torch.tensor([2, 3, 4])]], ids=str)
def test_generate_gives_the_attention_of_a_continued_text(prompts: Any) -> None:
    for text in build_language_model().generate(prompts, max_length=4, get_attention=True):
        assert text.encoder is None and text.decoder is not None
        assert text.decoder.steps.tolist() == text.source_steps + text.steps
        assert not text.decoder.halting[0].isnan().any()


def test_generate_takes_texts_and_gives_texts() -> None:
    model = build_model()  # with random weights, whose outputs do not end
    size = model.config.source_vocab
    model.vocabularies = {
        "source": Vocabulary("abcdefghi"[: size - 2]),
        "target": Vocabulary(map(str, range(size))),
    }
    ids = [model.encode(text) for text in ("b a c", "ba")]
    assert ids == [[3, 2, 4], [3, 2]]
    model.output.bias.data[EOS] = 100.0
    assert model.generate(["b a c"]) == [""]
    model.output.bias.data[EOS] = -100.0
    with pytest.warns(UserWarning, match="cut off: give generate a larger max_length"):
        found = model.generate(["b a c", "ba"], max_length=4)
    assert found == [model.decode(each.tokens) for each in model.generate(ids, max_length=4)]


def test_generate_continues_texts_of_characters() -> None:
    model = build_language_model()
    model.vocabularies = {"text": Characters("abcdefghi"[: model.config.vocab_size - 3] + " ")}
    [text] = model.generate(["ab a"], max_length=3)
    [answer] = model.generate([model.encode("ab a")], max_length=3)
    assert text.startswith("ab a") and text == "ab a" + model.decode(answer.tokens)


def test_generate_loses_no_text_in_silence() -> None:
    model = build_model()
    refuses(
        r"no vocabulary 'source', so it takes token ids.*model\.vocabularies\['source'\]",
        model.generate,
        ["a"],
    )
    model.vocabularies = {"source": Vocabulary("abc"), "target": Vocabulary("xyz")}
    refuses("unknown symbol 'd'", model.generate, ["a b", "a d"])
    refuses(r"takes a list of texts: \['a b'\]", model.generate, "a b")
    refuses(r"sources\[1\] is 'a b'", model.generate, [[2], "a b"])
    refuses(r"sources\[0\] is empty: it needs at least one token", model.generate, [""])
    refuses("encode the texts with model.encode", model.generate, ["a"], get_attention=True)
    refuses(r"sources\[0\] is 5: .* as in \[\[5, 6, 7\]\]", model.generate, [5, 6, 7])
    refuses(r"encode takes one text; got \['a'\]", model.encode, ["a"])
    for other in ("abc", model.generate([[2]], max_length=1)[0]):
        refuses("decode takes token ids, as answer.tokens; got", model.decode, other)
