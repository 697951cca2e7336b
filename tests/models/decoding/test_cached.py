from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.parametrize import remove_parametrizations

from graphut.models.decoding.cached import CachedDecoder, RaggedCache
from graphut.models.decoding.decoder import PrefixDecoder, TokenDecoder
from tests.helpers import assert_same, covering, name_of
from tests.models.decoding.cases import MODES, build_setting, growth
from tests.nn.adapters import LowRank, halved, halving, normed
from tests.nn.cases import RULES, SIGNALS

PAIRWISE = covering(**MODES)


def of_modes(*names: str) -> dict[str, Any]:
    return {name: MODES[name] for name in names}


ROWS: list[dict[str, Any]] = [
    *PAIRWISE,
    # The state that a halted token shows depends on these three together.
    *(
        {
            **dict(zip(("halted", "norm", "transition"), values, strict=True)),
            "changed": "max_steps=7",
        }
        for values in product(*of_modes("halted", "norm", "transition").values())
    ),
    *covering(**SIGNALS, **of_modes("halted", "norm", "changed")),
    *covering(
        rule=[name for name in RULES if "global" not in name],
        **of_modes("halted", "norm", "transition", "topology"),
    ),
    *covering(copy_gate=(True,), **of_modes("halted", "transition", "halt_from", "changed")),
    *covering(share_weights=(False,), max_steps=(3,), **of_modes("norm", "transition")),
]
CAP = 4
DEPTHS = st.lists(st.lists(st.integers(1, CAP), min_size=1, max_size=5), min_size=1, max_size=5)
FULL = [dict(zip(MODES, values, strict=True)) for values in product(*MODES.values())]


@pytest.mark.parametrize(
    "row", [*ROWS, *(pytest.param(row, marks=pytest.mark.full) for row in FULL)], ids=name_of
)
def test_cached_decoder_equals_the_prefix_decoder(row: dict[str, Any]) -> None:
    """On branching hypotheses; and both equal one run over all prefixes."""
    setting = build_setting(**row)
    cached, again = setting.decoder(CachedDecoder), setting.decoder(PrefixDecoder)
    for parents, tokens, sentences, prefixes in growth():
        found = cached.advance(parents, tokens)
        assert_same(found, again.advance(parents, tokens))
        assert_same(found, setting.fed(sentences, prefixes))


def test_decoders_draw_by_the_number_of_a_sentence_after_others_have_ended() -> None:
    setting = build_setting(rule="sampled")
    cached, again = setting.decoder(CachedDecoder), setting.decoder(PrefixDecoder)
    for parents in (torch.arange(3), torch.tensor([0, 2, 2]), torch.tensor([1, 2]), torch.ones(1)):
        arguments = parents.long(), torch.full((len(parents),), 3)
        assert_same(cached.advance(*arguments), again.advance(*arguments))


@pytest.mark.parametrize("kind", [CachedDecoder, PrefixDecoder])
def test_decoders_refuse_global_halting(kind: type[TokenDecoder]) -> None:
    setting = build_setting(rule="global")
    with pytest.raises(ValueError, match=r"Global\(.*\) cannot decode: the states of a token"):
        setting.decoder(kind)
    setting.recurrence.evaluation_rule = RULES["quantile"]
    setting.recurrence.eval()
    setting.decoder(kind)


@pytest.mark.parametrize(
    ("change", "undo"),
    [
        (LowRank, LowRank.merged),
        (halving, halved),
        (normed, lambda layer: remove_parametrizations(layer, "weight")),
    ],
    ids=["lora", "hooks", "weight-norm"],
)
@pytest.mark.parametrize("halted", MODES["halted"])
@pytest.mark.parametrize("norm", MODES["norm"])
def test_cached_decoder_with_changed_maps_is_that_with_changed_weights(
    norm: str, halted: str, change: Any, undo: Any
) -> None:
    setting = build_setting(norm=norm, halted=halted, transition="sepconv")
    maps = [
        (owner, name)
        for owner in setting.recurrence.modules()
        for name, part in owner.named_children()
        if type(part) is nn.Linear
    ]
    plain, changed, expected = [], [], []
    for said, by in ((plain, None), (changed, change), (expected, undo)):
        for owner, name in maps if by else []:
            setattr(owner, name, by(getattr(owner, name)).requires_grad_(False))
        decoder = setting.decoder(CachedDecoder)
        said += [part for step in growth() for part in decoder.advance(*step[:2])]
    assert len(maps) == 9 and not torch.allclose(plain[-2], changed[-2])
    assert_same(changed, expected)


def test_cached_decoder_computes_shared_tokens_once() -> None:
    setting, rows = build_setting(), []
    embed = setting.embed
    setting.embed = lambda token: rows.append(len(token)) or embed(token)
    decoder = setting.decoder(CachedDecoder)
    for parents, tokens, *_ in growth():
        decoder.advance(parents, tokens)
    assert rows == [3, 5, 5, 5, 5, 5]


@given(DEPTHS)
def test_ragged_cache_reads_the_last_row_at_later_steps(batches: list[list[int]]) -> None:
    cache, shown = RaggedCache(CAP), []
    for depths in batches:
        nodes = cache.add_nodes(len(depths))
        assert nodes.tolist() == list(range(len(shown), len(shown) + len(depths)))
        for step in range(1, max(depths) + 1):
            deep = nodes[torch.tensor(depths) >= step]
            cache.write(deep, step, (10.0 * deep + step)[:, None])
        pairs = zip(nodes.tolist(), depths, strict=True)
        shown += [[10.0 * n + min(t, d) for t in range(1, CAP + 1)] for n, d in pairs]
    expected = torch.tensor(shown)
    for step in range(1, CAP + 1):
        nodes = torch.arange(len(shown)).flip(0)
        assert torch.equal(cache.read(nodes, step)[:, 0], expected.flip(0)[:, step - 1])


def test_ragged_cache_keeps_one_row_for_each_write() -> None:
    cache = RaggedCache(100)
    for _ in range(50):
        cache.write(cache.add_nodes(2), 1, torch.zeros(2, 8))
    assert cache._rows is not None and cache._rows.shape[0] <= 2 * 100 + 2
