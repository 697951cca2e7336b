from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from graphut.nn import AttentionRecord, dense_recurrence, reference
from graphut.topology import Causal
from tests.helpers import assert_same, covering, layout_of, name_of
from tests.nn.cases import HEADS, LENGTHS, MODES, build_case

MODES_OF_WEIGHTS = {
    name: MODES[name] for name in ("halted", "norm", "form", "topology", "scale_by_degree")
}


@pytest.fixture
def oracle(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Gets the weights `(heads, destinations, sources)` of each attention of the dense oracle."""
    found: list[Tensor] = []
    attend = reference._attend

    def attend_and_note(layer: Any, edges: Any, rows: Tensor, source: Tensor) -> Tensor:
        def heads(x: Tensor) -> Tensor:
            return x.view(-1, layer.num_heads, layer.head_feats).transpose(0, 1)

        scores = heads(layer.query(rows)) @ heads(layer.key_value(source).chunk(2, 1)[0]).mT
        scores = scores * layer.head_feats**-0.5
        if layer.degree_scale is not None:
            growth = edges.layout.in_degrees.double().log1p()
            scores = scores * torch.outer(layer.degree_scale, growth)[:, :, None]
        found.append((scores + edges.copies.double().log()).softmax(-1).detach())
        return attend(layer, edges, rows, source)

    monkeypatch.setattr(reference, "_attend", attend_and_note)
    return found


@pytest.mark.parametrize("modes", covering(**MODES_OF_WEIGHTS), ids=name_of)
def test_attention_record_is_that_of_the_dense_oracle(
    modes: dict[str, Any], oracle: list[Tensor]
) -> None:
    case = build_case(**modes)
    out, ponder, _ = case.layer(case.graph, case.feat, **case.arguments, get_attention=True)
    assert_same([out], [case.layer(case.graph, case.feat, **case.arguments)[0]])
    dense_recurrence(case.layer, case.graph, case.feat, **case.arguments)
    records = [ponder.attention]
    if modes["form"] == "decoder":
        records.append(ponder.cross_attention)
    for number, record in enumerate(records):
        assert record is not None and len(record.weights) == int(ponder.steps.max())
        expected = torch.stack(oracle[number :: len(records)])
        first_dst = first_src = 0
        for sentence, length in enumerate(LENGTHS):
            sources = int(record.layout.src_lengths[sentence])
            found = record.dense(sentence)
            own = expected[:, :, first_dst:, first_src:][:, :, :length, :sources]
            own = own[: len(found)].clone()
            for step in range(len(found)):
                halted = ponder.steps[first_dst:][:length] <= step
                if modes["halted"] != "running":
                    own[step, :, halted] = 0.0
            assert_same([found], [own])
            first_dst, first_src = first_dst + length, first_src + sources


@pytest.mark.parametrize("part", ["attention", "cross_attention"])
def test_attention_record_of_a_hooked_layer(part: str) -> None:
    case = build_case(form="decoder")

    def run() -> list[Tensor]:
        out, ponder, _ = case.layer(case.graph, case.feat, **case.arguments, get_attention=True)
        return [out, *ponder.attention.weights, *ponder.cross_attention.weights]

    plain = run()
    case.layer.step.get_submodule(part).register_forward_hook(lambda *call: None)
    assert_same(run(), plain)


def test_attention_record_dense_adds_up_parallel_edges() -> None:
    layout = layout_of([(1, 0), (0, 0), (1, 0), (1, 1)], 2, 2)
    weights = torch.tensor([[0.25], [0.5], [0.25], [1.0]])
    expected = torch.tensor([[[[0.5, 0.5], [0.0, 1.0]]]])
    assert_same([AttentionRecord(layout, [weights]).dense()], [expected])


@pytest.mark.parametrize("sentence", [-1, 2])
def test_attention_record_dense_refuses_a_sentence_that_is_not_there(sentence: int) -> None:
    record = AttentionRecord(Causal().layout([2, 1]), [torch.ones(4, HEADS)])
    with pytest.raises(ValueError, match=f"no sentence {sentence} in a batch of 2, counted from 0"):
        record.dense(sentence)
