from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from graphut.models import UniversalTransformer, UniversalTransformerConfig
from graphut.models import writing as module
from graphut.models.decoding import Generation, PrefixDecoder
from graphut.nn import HALTING_PRESETS, MultiHeadAttention
from graphut.topology import Topology, parse
from tests.helpers import assert_same, covering, gradients, name_of
from tests.models.cases import SOURCES, TARGETS, VOCABULARY, build_model, logits_of, small
from tests.topology import catalogue

EOS = 1
MODES: dict[str, Any] = {
    "halted": ("copied", "frozen", "stale", "running"),
    "norm": ("post", "pre"),
    "transition": ("positionwise", "sepconv"),
    "adaptive": (True, False),
    "decoder_topology": ("causal", "window:2&causal"),
    "tie_output": (True, False),
    "share_embeddings": (True, False),
    "frame_source": (False, True),
    "source_positions": ("start", "both"),
}
PAIRWISE = covering(**MODES)
SEARCHES: list[dict[str, Any]] = [
    {},
    {"beam_size": 3},
    {"beam_size": 4, "length_penalty": 2.0},
    {"temperature": 0.8, "top_p": 0.9},
]


@dataclass(frozen=True)
class LatterHalf(Topology):
    """Causal, but how far a token looks back depends on how long the sentence is."""

    name = "latter_half_of_model_tests"

    def interval(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        return dst - n_dst // 2, dst + 1


def plain_greedy(model: UniversalTransformer, source: list[int], max_length: int) -> Generation:
    """Greedy decoding by the forward pass alone, over ever longer targets."""
    tokens: list[int] = []
    score, steps = 0.0, []
    while len(steps) < max_length and tokens[-1:] != [EOS]:
        logits, encoder, decoder = model(model.sentence_graph([source], [tokens]))
        steps.append(int(decoder.steps[len(tokens)]))  # tokens come before extra nodes
        likely = logits[-1].log_softmax(-1)
        tokens.append(1 + int(likely[1:].argmax()))  # bos is never taken
        score += likely[tokens[-1]].item()
    return Generation(
        tokens[: tokens.index(EOS)] if EOS in tokens else tokens,
        score,
        steps,
        encoder.steps[int(model.config.frame_source) :][: len(source)].tolist(),
    )


def assert_same_generations(found: list[Generation], expected: list[Generation]) -> None:
    for a, b in zip(found, expected, strict=True):
        assert (a.tokens, a.steps, a.source_steps) == (b.tokens, b.steps, b.source_steps)
        assert a.score == pytest.approx(b.score, abs=1e-10)


def seeded(options: dict[str, Any]) -> dict[str, Any]:
    """Options of `generate`, with a fresh generator for those that draw."""
    return {**options, "generator": torch.Generator().manual_seed(0)}


@pytest.fixture
def model() -> UniversalTransformer:
    return build_model()


@pytest.mark.parametrize("row", PAIRWISE, ids=name_of)
def test_a_batch_is_its_sentences(row: dict[str, Any]) -> None:
    model = build_model(**row)
    together = model(model.sentence_graph(SOURCES, TARGETS))
    alone = [
        model(model.sentence_graph([source], [target]))
        for source, target in zip(SOURCES, TARGETS, strict=True)
    ]
    assert_same([together.logits], [torch.cat([out.logits for out in alone])])
    for side in ("encoder", "decoder"):
        ponders = [getattr(out, side) for out in alone]
        assert_same(
            [getattr(together, side).steps, getattr(together, side).remainder],
            [torch.cat([p.steps for p in ponders]), torch.cat([p.remainder for p in ponders])],
        )


@pytest.mark.parametrize("row", PAIRWISE, ids=name_of)
def test_greedy_decoding_is_the_forward_pass_again_and_again(row: dict[str, Any]) -> None:
    model = build_model(**row)
    expected = [plain_greedy(model, source, 6) for source in SOURCES]
    assert_same_generations(model.generate(SOURCES, max_length=6), expected)
    model.max_steps, model.threshold = 3, 0.6
    expected = [plain_greedy(model, source, 6) for source in SOURCES]
    assert_same_generations(model.generate(SOURCES, max_length=6), expected)


@pytest.mark.parametrize("search", SEARCHES, ids=str)
@pytest.mark.parametrize("halted", ["copied", "frozen", "stale", "running"])
def test_every_search_finds_with_the_cache_what_it_finds_with_the_prefix(
    search: dict[str, Any], halted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build_model(halted=halted)
    found = model.generate(SOURCES, max_length=6, **seeded(search))
    monkeypatch.setattr(module, "CachedDecoder", PrefixDecoder)
    assert_same_generations(found, model.generate(SOURCES, max_length=6, **seeded(search)))


@pytest.mark.parametrize("search", SEARCHES[:-1], ids=str)
def test_an_answer_does_not_depend_on_the_batch(
    search: dict[str, Any], model: UniversalTransformer
) -> None:
    together = model.generate(SOURCES, max_length=6, **search)
    alone = [model.generate([source], max_length=6, **search)[0] for source in SOURCES]
    assert_same_generations(together, alone)
    assert_same_generations(model.generate(SOURCES[::-1], max_length=6, **search), alone[::-1])


def test_answers_leave_out_eos_and_count_its_steps() -> None:
    model = build_model()
    model.output.bias.data[EOS] = 100.0
    for answer, source in zip(model.generate(SOURCES), SOURCES, strict=True):
        assert (answer.tokens, len(answer.steps)) == ([], 1)
        assert len(answer.source_steps) == len(source)
    model.output.bias.data[EOS] = -100.0
    for answer in model.generate(SOURCES, max_length=4):
        assert len(answer.tokens) == len(answer.steps) == 4


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_cases_ponder_for_different_numbers_of_steps(norm: str) -> None:
    model = build_model(norm=norm)
    out = model(model.sentence_graph(SOURCES, TARGETS))
    assert len(out.encoder.steps.unique()) >= 3 and len(out.decoder.steps.unique()) >= 3
    before = [out.encoder.steps, out.decoder.steps]
    model.max_steps, model.threshold = 3, 0.6
    assert (model.max_steps, model.threshold) == (3, 0.6)
    out = model(model.sentence_graph(SOURCES, TARGETS))
    for steps, old in zip([out.encoder.steps, out.decoder.steps], before, strict=True):
        assert steps.max() <= 3 and bool((steps <= old).all()) and not torch.equal(steps, old)


class TestUnstableTopologies:
    @pytest.mark.parametrize("search", [{}, {"beam_size": 2}], ids=str)
    @pytest.mark.parametrize("side", ["decoder_topology", "cross_topology"])
    def test_it_warns_once_where_it_is_called(self, side: str, search: dict[str, Any]) -> None:
        spec = LatterHalf.name if side == "decoder_topology" else f"{LatterHalf.name} | window:9"
        model = build_model(**{side: spec})
        with warnings.catch_warnings(record=True) as record:
            warnings.simplefilter("always")
            model.generate(SOURCES, max_length=5, **search)
            model.generate(SOURCES, max_length=5, **search)
        assert LatterHalf.name in str(record[0].message) and "whole prefix" in str(
            record[0].message
        )
        assert [warning.filename for warning in record] == [__file__]

    def test_the_answer_is_that_of_the_forward_pass(self) -> None:
        model = build_model(decoder_topology=LatterHalf.name)
        expected = [plain_greedy(model, source, 6) for source in SOURCES]
        with pytest.warns(UserWarning, match="whole prefix"):
            found = model.generate(SOURCES, max_length=6)
        assert_same_generations(found, expected)

    def test_the_encoder_may_be_unstable(self) -> None:
        model = build_model(encoder_topology=LatterHalf.name)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.generate(SOURCES, max_length=3)
        assert not caught


EXTRA: list[dict[str, Any]] = [
    {"encoder_topology": "star"},
    {"encoder_topology": "exphormer:2,2@1", "cross_topology": "window:1"},
    {"encoder_topology": "binary_partition:1", "decoder_topology": "binary_partition:1&causal"},
    {"encoder_topology": "star", "decoder_topology": "(window:1|virtual:2)&causal"},
]


@pytest.mark.filterwarnings("ignore:the topologies .* whole prefix")
@pytest.mark.parametrize("spec", catalogue.ALL)
def test_a_model_takes_every_topology(spec: str) -> None:
    """Its causal half in the decoder; all tokens see themselves."""
    own = parse(f"window:0|({spec})")
    model = build_model(
        encoder_topology=str(own),
        decoder_topology=str(own.causal()),
        cross_topology=str(own) if spec in catalogue.TOKENS else "window:1",
    )
    expected = [plain_greedy(model, source, 5) for source in SOURCES]
    assert_same_generations(model.generate(SOURCES, max_length=5), expected)


class TestExtraNodes:
    @pytest.mark.parametrize("halted", ["copied", "frozen", "stale", "running"])
    @pytest.mark.parametrize("topologies", EXTRA, ids=name_of)
    def test_a_batch_is_its_sentences(self, topologies: dict[str, str], halted: str) -> None:
        model = build_model(halted=halted, **topologies)
        together = model(model.sentence_graph(SOURCES, TARGETS))
        pairs = zip(SOURCES, TARGETS, strict=True)
        alone = [model(model.sentence_graph([source], [target])) for source, target in pairs]
        assert_same([together.logits], [torch.cat([out.logits for out in alone])])
        for side in ("encoder", "decoder"):
            steps = [getattr(out, side).steps for out in alone]
            assert_same([getattr(together, side).steps], [torch.cat(steps)])

    @pytest.mark.filterwarnings("ignore:the topologies .* whole prefix")
    @pytest.mark.parametrize("search", SEARCHES[:2], ids=str)
    @pytest.mark.parametrize("topologies", EXTRA, ids=name_of)
    def test_decoding_is_the_forward_pass_again_and_again(
        self, topologies: dict[str, str], search: dict[str, Any]
    ) -> None:
        model = build_model(**topologies)
        together = model.generate(SOURCES, max_length=6, **search)
        alone = [model.generate([source], max_length=6, **search)[0] for source in SOURCES]
        assert_same_generations(together, alone)
        if not search:
            assert_same_generations(together, [plain_greedy(model, s, 6) for s in SOURCES])

    def test_it_says_once_that_the_prefix_is_run_again(self) -> None:
        model = build_model(decoder_topology="star&causal")
        with pytest.warns(UserWarning, match=r"'star&causal' .* whole prefix"):
            model.generate(SOURCES, max_length=3)
        model.generate(SOURCES, max_length=3)  # in tests, a warning is an error

    def test_only_tokens_are_read_out(self) -> None:
        model = build_model(encoder_topology="star", decoder_topology="(causal|virtual:3)&causal")
        graph = model.sentence_graph(SOURCES, TARGETS)
        out = model(graph)
        assert out.logits.shape == (sum(len(t) + 1 for t in TARGETS), VOCABULARY)
        assert out.encoder.steps.shape == (sum(len(s) + 1 for s in SOURCES),)
        assert out.decoder.steps.shape == (len(out.logits) + 3 * len(TARGETS),)
        for part in (out.encoder, out.decoder):
            assert_same([part.cost], [(part.steps + part.remainder).mean()])

    @pytest.mark.parametrize("spec", ["star&causal", "(window:1|virtual:2)&causal", "causal"])
    def test_no_token_learns_of_a_later_one(self, spec: str) -> None:
        model, target = build_model(decoder_topology=spec), [2, 3, 4, 5, 6]
        found = model(model.sentence_graph([[3, 2]], [target])).logits
        for place in range(len(target)):
            other = [*target[:place], 6 - target[place] + 2, *target[place + 1 :]]
            logits = model(model.sentence_graph([[3, 2]], [other])).logits
            assert_same([logits[: place + 1]], [found[: place + 1]])

    def test_a_span_is_the_same_however_long_the_sentence_is(self) -> None:
        model, target = (
            build_model(decoder_topology="binary_partition:1&causal"),
            [2, 3, 4, 5, 6, 3],
        )
        whole = model(model.sentence_graph([[3, 2]], [target])).logits
        for n in range(len(target)):
            part = model(model.sentence_graph([[3, 2]], [target[:n]])).logits
            assert_same([part], [whole[: n + 1]])

    def test_nodes_that_start_alike_become_different(self) -> None:
        model = build_model(encoder_topology="window:1|virtual:2")
        seen: list[Tensor] = []
        model.encoder.register_forward_hook(lambda *call: seen.append(call[2][0]))
        model(model.sentence_graph([[3, 2, 4]], [[2]]))
        first, second = seen[0][-2:]
        assert (first - second).norm() > 0.01 * first.norm()

    @pytest.mark.parametrize("topologies", EXTRA, ids=name_of)
    def test_gradients_reach_every_parameter(self, topologies: dict[str, str]) -> None:
        model = build_model(**topologies).train()
        out = model(model.sentence_graph(SOURCES, TARGETS))
        found = gradients([out.logits, out.encoder.cost, out.decoder.cost], model.parameters())
        assert all(g.abs().sum() > 1e-9 for g in found)

    def test_a_graph_of_other_topologies(self) -> None:
        graph = build_model(decoder_topology="star&causal").sentence_graph(SOURCES, TARGETS)
        with pytest.raises(
            ValueError, match=r"target nodes of the graph are not those of .*'causal'"
        ):
            build_model()(graph)


@pytest.mark.parametrize("cross", ["window:0", "window:1&causal", "global:0|window:0"])
def test_a_target_may_outgrow_the_reach_of_its_cross_topology(cross: str) -> None:
    model = build_model(cross_topology=cross)
    model.output.bias.data[EOS] = -100.0
    sources = [[3], [2, 4]]
    expected = [plain_greedy(model, source, 7) for source in sources]
    assert_same_generations(model.generate(sources, max_length=7), expected)
    assert len(expected[0].tokens) == 7


class TestBadInput:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"max_length": 0}, "max_length must be at least 1, got 0"),
            ({"max_length": 21}, "an output of max_length=21 has 21 tokens, but the model"),
            ({"beam_size": 0}, "beam_size must be at least 1, got 0"),
            ({"length_penalty": -0.5}, "length_penalty must be 0 or more, got -0.5"),
            ({"length_penalty": math.nan}, "length_penalty must be 0 or more, got nan"),
            ({"length_penalty": math.inf}, "length_penalty must be 0 or more, got inf"),
            ({"temperature": 0}, "temperature must be above 0, got 0; leave it out for greedy"),
            ({"temperature": math.nan}, "temperature must be above 0, got nan"),
            ({"top_p": 0.0}, r"top_p must lie in \(0, 1\], got 0.0"),
            ({"top_p": 1.1}, r"top_p must lie in \(0, 1\], got 1.1"),
            ({"beam_size": 2, "top_p": 0.5}, "beam_size=2 and sampling"),
            ({"beam_size": 3, "temperature": 1.0}, "beam_size=3 and sampling"),
        ],
        ids=str,
    )
    def test_options_of_generate(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            build_model(max_length=20).generate(SOURCES, **{"max_length": 5, **options})

    @pytest.mark.parametrize(
        ("topologies", "message"),
        [
            ({"encoder_topology": "global:5"}, "'global:5' leaves node 0 of a sentence"),
            ({"decoder_topology": "random:4&causal"}, r"'\(random:4@0&causal\)\|window:0'"),
        ],
    )
    def test_topologies_in_which_a_token_sees_none(
        self, topologies: dict[str, str], message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            logits_of(build_model(**topologies))

    @pytest.mark.parametrize("framed", [False, True])
    @pytest.mark.parametrize(
        ("sources", "message"),
        [
            ([], "sources is empty"),
            ([[2], []], r"sources\[1\] is empty"),
            ([[2], [3, 7]], "source token 7 is outside the vocabulary of 7 tokens, 0 to 6"),
            ([[2, -1]], r"sources\[0\] holds -1"),
            ([[2] * 21], r"a source sentence has 2\d tokens, but the model takes 20"),
        ],
    )
    def test_sources(self, sources: list[list[int]], message: str, framed: bool) -> None:
        model = build_model(max_length=20, frame_source=framed)
        with pytest.raises(ValueError, match=message):
            model.generate(sources, max_length=3)
        with pytest.raises(ValueError, match=message):
            model(model.sentence_graph(sources, [[2]] * len(sources)))

    @pytest.mark.parametrize(
        ("target", "message"),
        [
            ([2, 8], "target token 8 is outside the vocabulary of 7 tokens, 0 to 6"),
            ([2] * 20, "a target sentence has 21 tokens, but the model takes 20"),
        ],
    )
    def test_targets(self, target: list[int], message: str) -> None:
        model = build_model(max_length=20, source_vocab=9)
        with pytest.raises(ValueError, match=message):
            model(model.sentence_graph([[2, 8]], [target]))

    def test_a_negative_token_put_into_the_graph(self, model: UniversalTransformer) -> None:
        graph = model.sentence_graph(SOURCES, TARGETS)
        graph.nodes["target"].data["token"][3] = -2
        with pytest.raises(ValueError, match="target token -2 is outside"):
            model(graph)

    def test_a_graph_without_targets(self, model: UniversalTransformer) -> None:
        with pytest.raises(ValueError, match="no target nodes: give sentence_graph the targets"):
            model(model.sentence_graph(SOURCES))

    @pytest.mark.parametrize(
        ("name", "value"), [("max_steps", 0), ("threshold", 0.0), ("threshold", 1.5)]
    )
    def test_a_wrong_cap_or_threshold(
        self, name: str, value: float, model: UniversalTransformer
    ) -> None:
        setattr(model, name, value)
        with pytest.raises(ValueError, match=f"{name} must .*{value}"):
            model.generate(SOURCES)
        with pytest.raises(ValueError, match=f"{name} must .*{value}"):
            model.save_pretrained("nowhere")

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
    def test_a_weight_that_is_not_a_number(self, adaptive: bool, name: str) -> None:
        model = build_model(adaptive=adaptive)
        model.get_parameter(name).data[2] = math.nan
        with pytest.raises(ValueError, match=r"nan|NaN"):
            model.generate([[2, 3, 4, 5, 6]], max_length=5)


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_what_begins_a_sequence_is_never_in_one(
    search: dict[str, Any], model: UniversalTransformer
) -> None:
    model.output.bias.data[0] = 50.0
    for answer in model.generate(SOURCES, max_length=4, **seeded(search)):
        assert 0 not in answer.tokens
        assert math.isfinite(answer.score)


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_generate_leaves_every_part_in_its_mode(
    search: dict[str, Any], model: UniversalTransformer
) -> None:
    model.train()
    model.encoder.eval()
    before = [part.training for part in model.modules()]
    model.generate(SOURCES, max_length=3, **search)
    with pytest.raises(ValueError, match="outside the vocabulary"):
        model.generate([[99]], max_length=3, **search)
    assert [part.training for part in model.modules()] == before


def test_generate_is_free_of_dropout_and_gradients() -> None:
    plain, model = build_model(), build_model(dropout=0.5, attention_dropout=0.5).train()
    assert model.generate(SOURCES, max_length=5) == plain.generate(SOURCES, max_length=5)
    assert model(model.sentence_graph(SOURCES, TARGETS)).logits.requires_grad
    assert not torch.equal(logits_of(model), logits_of(plain))


def test_keys_may_begin_as_queries() -> None:
    model = UniversalTransformer(small(symmetric_init=True))
    found = [layer for layer in model.modules() if isinstance(layer, MultiHeadAttention)]
    assert len(found) == 3  # in the encoder, in the decoder, and from one to the other
    for layer in found:
        assert torch.equal(layer.key_value.weight.chunk(2)[0], layer.query.weight)


@pytest.mark.parametrize("row", [*PAIRWISE, {"weighting": "ema"}], ids=name_of)
def test_gradients_reach_every_parameter(row: dict[str, Any]) -> None:
    model = build_model(**row).train()
    out = model(model.sentence_graph(SOURCES, TARGETS))
    names, parameters = zip(*model.named_parameters(), strict=True)
    found = gradients([out.logits, out.encoder.cost, out.decoder.cost], parameters)
    # A softmax does not see what all scores have in common: the bias of the keys.
    assert [n for n, g in zip(names, found, strict=True) if not g.abs().sum() > 1e-9] == [
        name for name in names if name.endswith("key.bias")
    ]


@pytest.mark.parametrize("name", HALTING_PRESETS)
def test_presets(name: str) -> None:
    shape = small().to_dict()
    sizes = {key: shape[key] for key in ("source_vocab", "target_vocab", "d_model", "num_heads")}
    model = UniversalTransformer(UniversalTransformerConfig.preset(name, **sizes)).double().eval()
    for part in (model.encoder, model.decoder):
        assert {key: getattr(part, key) for key in HALTING_PRESETS[name]} == HALTING_PRESETS[name]
        assert part.step.norm == ("pre" if name == "dgl_tutorial" else "post")
    expected = [plain_greedy(model, source, 4) for source in SOURCES]
    assert_same_generations(model.generate(SOURCES, max_length=4), expected)


def test_without_halting_all_take_all_steps() -> None:
    model = build_model(adaptive=False)
    out = model(model.sentence_graph(SOURCES, TARGETS))
    for ponder in (out.encoder, out.decoder):
        assert set(ponder.steps.tolist()) == {5} and ponder.cost.item() == 0.0


def test_another_default_dtype() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        model = UniversalTransformer(small()).eval()
        assert {parameter.dtype for parameter in model.parameters()} == {torch.float64}
        assert logits_of(model).dtype == torch.float64
        for beam_size in (1, 2):
            model.generate(SOURCES, max_length=3, beam_size=beam_size)
    finally:
        torch.set_default_dtype(torch.float32)
    assert logits_of(model).dtype == torch.float64
    expected = [plain_greedy(model, source, 4) for source in SOURCES]
    assert_same_generations(model.generate(SOURCES, max_length=4), expected)


def test_a_fresh_model_starts_near_chance() -> None:
    torch.manual_seed(0)
    model = UniversalTransformer(small(source_vocab=40, target_vocab=40, d_model=64)).eval()
    graph = model.sentence_graph(SOURCES, TARGETS)
    label = graph.nodes["target"].data["label"]
    loss = torch.nn.functional.cross_entropy(model(graph).logits, label).item()
    assert abs(loss - math.log(40)) < 2.0


def test_parameters_can_be_drawn_anew(model: UniversalTransformer) -> None:
    before = [parameter.clone() for parameter in model.parameters()]
    torch.manual_seed(0)
    model.reset_parameters()
    again = [parameter.clone() for parameter in model.parameters()]
    assert not any(torch.equal(a, b) for a, b in zip(before, again, strict=True))
    torch.manual_seed(0)
    model.reset_parameters()
    assert all(torch.equal(a, b) for a, b in zip(again, model.parameters(), strict=True))


def test_tokens_may_be_tensors(model: UniversalTransformer) -> None:
    tensors = [torch.tensor(source) for source in SOURCES]
    assert model.generate(tensors, max_length=3) == model.generate(SOURCES, max_length=3)
