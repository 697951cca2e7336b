from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from graphut.nn import AttentionRecord, Ponder, ScheduledHalting, dense_recurrence, reference
from graphut.nn.ponder import FlopCount
from graphut.topology import Causal
from tests.helpers import assert_same, covering, layout_of, name_of
from tests.nn.cases import HEADS, LENGTHS, MODES, build_case

# Three nodes in a row, each with an edge from every earlier one and from itself.
LAYOUT = Causal().layout([3])
PONDER = Ponder(
    steps=torch.tensor([1, 3, 2]),
    remainder=torch.tensor([1.0, 0.5, 0.25]),
    cost=torch.tensor(2.5),
    max_steps=4,
    work=FlopCount(
        projections=[(3, None), (3, torch.tensor([0, 1, 2])), (3, torch.tensor([1, 2, 3, 3]))],
        attended=[
            (LAYOUT, None),
            (LAYOUT, torch.tensor([1, 2, 3])),  # node 3 does not exist
            (LAYOUT, torch.tensor([1])),
        ],
        cross_attended=[(LAYOUT, torch.tensor([0, 1]))],
    ),
    layouts=(LAYOUT,) * 4,
    cross_layout=LAYOUT,
    node_flops=1000,
    key_value_flops=100,
    edge_flops=1,
)


def test_ponder_sums_the_work() -> None:
    assert PONDER.mean_steps == 2.0
    assert PONDER.frontier_sizes.tolist() == [3, 2, 1, 0]
    assert PONDER.computed == 3 + 2 + 1
    assert PONDER.projected == 3 + 3 + 2
    assert PONDER.edges == 6 + 5 + 2 + 3
    assert PONDER.all_edges == 4 * 6 + 4 * 6
    assert PONDER.flops == 16 + 6 * 1000 + 8 * 100
    assert PONDER.all_flops == 48 + 12 * 1000 + 12 * 100


@pytest.mark.parametrize("modes", [{"halted": "stale"}, {"halted": "frozen", "norm": "pre"}])
def test_flops_are_those_that_torch_counts(modes: dict[str, Any]) -> None:
    halting = ScheduledHalting(torch.tensor([1, 2, 1, 5, 3]))
    case = build_case(**modes, lengths=[5], halting=halting)
    case.layer.step.attention.backend = "dense"  # on a complete graph no score is masked
    with FlopCounterMode(display=False) as counter:
        _, ponder = case.layer(case.graph, case.feat, **case.arguments)
    assert counter.get_total_flops() == int(ponder.flops)


@pytest.mark.parametrize("halted", ["copied", "stale", "running"])
def test_ponder_when_nobody_halts_everything_is_done(halted: str) -> None:
    case = build_case(halted=halted, halting=ScheduledHalting(torch.full((10,), 9)))
    _, ponder = case.layer(case.graph, case.feat)
    assert ponder.edges == ponder.all_edges
    assert ponder.flops == ponder.all_flops


@pytest.mark.parametrize(("cost", "of"), [("steps+remainder", [1, 1]), ("remainder", [0, 1])])
def test_ponder_the_cost_is_a_mean_over_nodes_with_the_gradient_of_the_remainder(
    cost: str, of: list[int]
) -> None:
    case = build_case(cost=cost)
    _, ponder = case.layer(case.graph, case.feat)
    expected = (of[0] * ponder.steps + of[1] * ponder.remainder).mean()
    torch.testing.assert_close(ponder.cost, expected)
    bias = case.layer.halting.linear.bias
    (found,) = torch.autograd.grad(ponder.cost, bias, retain_graph=True)
    (by_remainder,) = torch.autograd.grad(ponder.remainder.mean(), bias)
    torch.testing.assert_close(found, by_remainder)
    assert found.item() < 0  # more probability at each step leaves less for the last


@pytest.mark.parametrize("way", ["checkpointed", "hooked"])
def test_attention_record_and_work_of_a_decoder_that_projects_its_source_at_every_step(
    way: str,
) -> None:
    case = build_case(form="decoder")
    case.layer.checkpoint_steps = way == "checkpointed"
    if way == "hooked":
        case.layer.step.cross_attention.register_forward_hook(lambda *call: None)
    out, ponder, _ = case.layer(case.graph, case.feat, **case.arguments, get_attention=True)
    steps = int(ponder.steps.max())
    out.sum().backward()  # does the steps again
    assert len(ponder.attention.weights) == len(ponder.cross_attention.weights) == steps
    source = case.arguments["cross"][1]
    projection = source.shape[0] * case.layer.step.cross_attention.key_value_flops
    assert ponder.encoded_flops == steps * projection


# The weights of all steps.

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
