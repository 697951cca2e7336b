import math
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graphut.models import UniversalTransformer
from graphut.nn import parse_rule
from graphut.topology import parse
from tests.helpers import assert_same, covering, name_of, refuses
from tests.models.cases import (
    CASES,
    EOS,
    EXTRA,
    SEARCHES,
    SOURCES,
    STEP,
    TARGETS,
    VOCABULARY,
    LatterHalf,
    assert_decodes_as_forward,
    assert_same_generations,
    build_model,
    plain_greedy,
    small,
)
from tests.nn.adapters import LowRank, halving, normed
from tests.topology import catalogue

PAIRWISE = CASES["pairs"].rows[: -len(EXTRA)]


SHOWN = {name: STEP[name] for name in ("halted", "norm", "transition")}
ACTS = [
    f"act:halt_from={seen},weighting={weighting}"
    for seen in ("input", "output")
    for weighting in ("sum", "ema", "last")
]
RULES = [
    "ponder_net:threshold=0.8",
    "ponder_net:threshold=0.8,weighting=last",
    "convergence:tol=0.7",
    "fixed",
]
RULES += ["threshold:threshold=0.45,halt_from=output", "convergence:tol=0.8,patience=2"]
CHANGES = ("", "max_steps=3", "max_steps=9", "rule=act:threshold=0.4")
DECODED = [
    # The state that a halted token shows depends on these three together. With this seed, tokens
    # take many steps after tokens that take few.
    *(
        {**dict(zip(SHOWN, values, strict=True)), "changed": "max_steps=12", "seed": 11}
        for values in product(*SHOWN.values())
    ),
    *covering(
        rule=ACTS,
        decoder_topology=("causal", "window:2&causal"),
        cross_topology=("complete", "window:1"),
        scale_by_degree=(False, True),
        changed=CHANGES,
        **SHOWN,
    ),
    *covering(rule=RULES, **SHOWN),
    *covering(share_weights=(False,), adaptive=(False,), norm=SHOWN["norm"]),
]


@pytest.mark.parametrize("row", [*PAIRWISE, *DECODED], ids=name_of)
def test_generate_is_the_forward_pass_again_and_again(row: dict[str, Any]) -> None:
    row = dict(row)
    changed = row.pop("changed", "max_steps=3" if row in PAIRWISE else "")
    model = build_model(**row)
    if changed:
        name, value = changed.split("=", 1)
        setattr(model, name, parse_rule(value) if name == "rule" else int(value))
    assert_decodes_as_forward(model, SOURCES, 6)


@pytest.mark.parametrize(
    "row",
    covering(change=(LowRank, halving, normed), **SHOWN),
    ids=lambda row: row["change"].__name__,
)
def test_generate_with_changed_maps_is_the_forward_pass(row: dict[str, Any]) -> None:
    change = row.pop("change")
    model = build_model(**row)
    plain = model.generate(SOURCES, max_length=6)
    for owner in [*model.decoder.modules()]:
        for name, part in [*owner.named_children()]:
            if type(part) is nn.Linear:
                setattr(owner, name, change(part).requires_grad_(False))
    assert_decodes_as_forward(model, SOURCES, 6)
    assert model.generate(SOURCES, max_length=6) != plain


@pytest.mark.filterwarnings("ignore:the topology .* whole prefix")
@pytest.mark.parametrize("halted", STEP["halted"])
@pytest.mark.parametrize(
    "topologies",
    [
        {"decoder_topology": LatterHalf.name},
        {"cross_topology": f"{LatterHalf.name} | window:3"},
        {"decoder_topology": f"{LatterHalf.name} & window:3", "cross_topology": "window:5"},
    ],
    ids="-".join,
)
def test_generate_with_an_unstable_topology_is_the_forward_pass(
    topologies: dict[str, str], halted: str
) -> None:
    model = build_model(halted=halted, **topologies)
    assert_decodes_as_forward(model, SOURCES, 6)


def test_generate_names_a_token_that_sees_no_source() -> None:
    model = build_model(cross_topology="causal & edges:1,1,1,2")
    model.output.bias.data[EOS] = -100.0
    refuses(r"token \d of a target no source token", model.generate, SOURCES[::2], max_length=6)


@pytest.mark.filterwarnings("ignore:the topology .* whole prefix")
@pytest.mark.parametrize("spec", catalogue.ALL)
def test_model_takes_every_topology(spec: str) -> None:
    """Its causal half in the decoder; all tokens see themselves."""
    own = parse(f"window:0|({spec})")
    model = build_model(
        encoder_topology=str(own),
        decoder_topology=str(own.causal()),
        cross_topology=str(own) if spec in catalogue.TOKENS else "window:1",
    )
    assert_decodes_as_forward(model, SOURCES, 5)


@pytest.mark.filterwarnings("ignore:the topology .* whole prefix")
@pytest.mark.parametrize("search", SEARCHES[:2], ids=str)
@pytest.mark.parametrize("topologies", EXTRA, ids=name_of)
def test_generate_with_extra_nodes_is_the_forward_pass_again_and_again(
    topologies: dict[str, str], search: dict[str, Any]
) -> None:
    model = build_model(**topologies)
    together = model.generate(SOURCES, max_length=6, **search)
    alone = [model.generate([source], max_length=6, **search)[0] for source in SOURCES]
    assert_same_generations(together, alone)
    if not search:
        assert_same_generations(together, [plain_greedy(model, s, 6) for s in SOURCES])


def test_forward_reads_out_only_tokens() -> None:
    model = build_model(encoder_topology="star", decoder_topology="(causal|virtual:3)&causal")
    out = model(SOURCES, TARGETS)
    assert out.logits.shape == (sum(len(t) + 1 for t in TARGETS), VOCABULARY)
    assert out.encoder.steps.shape == (sum(len(s) + 1 for s in SOURCES),)
    assert out.decoder.steps.shape == (len(out.logits) + 3 * len(TARGETS),)
    for part in (out.encoder, out.decoder):
        assert_same([part.cost], [(part.steps + part.remainder).mean()])


def test_encoder_tells_apart_nodes_that_start_alike() -> None:
    model = build_model(encoder_topology="window:1|virtual:2")
    states: list[Tensor] = []
    model.encoder.register_forward_hook(lambda *call: states.append(call[2][0]))
    model([[3, 2, 4]], [[2]])
    first, second = states[0][-2:]
    assert (first - second).norm() > 0.01 * first.norm()


@pytest.mark.parametrize("cross", ["window:0", "window:1&causal", "global:0|window:0"])
def test_generate_outgrows_the_reach_of_the_cross_topology(cross: str) -> None:
    model = build_model(cross_topology=cross)
    model.output.bias.data[EOS] = -100.0
    sources = [[3], [2, 4]]
    assert_decodes_as_forward(model, sources, 7)


def test_sentence_graph_refuses_long_sentences_before_it_makes_edges() -> None:
    for sides in (([[2] * 10**5], [[2]]), ([[2]], [[2] * 10**5])):
        refuses(r"10000\d tokens, but the model takes", build_model().sentence_graph, *sides)


def test_reset_parameters_starts_near_chance() -> None:
    torch.manual_seed(0)
    model = UniversalTransformer(small(source_vocab=40, target_vocab=40, d_model=64)).eval()
    graph = model.sentence_graph(SOURCES, TARGETS)
    label = graph.nodes["target"].data["label"]
    loss = torch.nn.functional.cross_entropy(model(graph).logits, label).item()
    assert abs(loss - math.log(40)) < 2.0


@pytest.mark.parametrize("row", [*PAIRWISE, *EXTRA], ids=name_of)
def test_forward_takes_sentences_instead_of_a_graph(row: dict[str, Any]) -> None:
    model = build_model(**row, max_offset=3, dropout=0.1).train()
    found = []
    for arguments in ((model.sentence_graph(SOURCES, TARGETS),), (SOURCES, TARGETS)):
        torch.manual_seed(0)
        found.append(model(*arguments, get_attention=True))
    assert torch.equal(found[0].logits, found[1].logits)
    for name in ("encoder", "decoder"):
        first, second = (getattr(output, name) for output in found)
        assert torch.equal(first.steps, second.steps)
        assert all(map(torch.equal, first.attention.weights, second.attention.weights))
