from typing import Any

import torch
from torch import Tensor

from graphut.models import UniversalTransformerClassifier
from tests.helpers import assert_same
from tests.models.cases import build_classifier


def positions_of(model: UniversalTransformerClassifier, documents: Any) -> Tensor:
    seen: list[Tensor] = []
    hook = model.encoder.register_forward_pre_hook(
        lambda *call: seen.append(call[2]["positions"]), with_kwargs=True
    )
    model(documents)
    hook.remove()
    return seen[0]


def test_encoder_model_mirrors_positions_from_the_end() -> None:
    for spec in ("complete", "star", "(window:1|virtual:2)"):
        start, end = (build_classifier(topology=spec, positions=each) for each in ("start", "end"))
        for size in (1, 4):
            document = [[[2]] * size]
            assert_same([positions_of(end, document)], [size + 1 - positions_of(start, document)])


def test_encoder_model_has_only_the_last_sentence_at_a_fixed_position() -> None:
    found = positions_of(
        build_classifier(positions="fixed", topology="star", max_length=30), [[[2]], [[3], [2]]]
    )
    assert found.tolist() == [30, 1, 1, 30, 1.5]  # the relay follows the sentences of a document


def test_encoder_model_draws_one_offset_for_a_document_in_training() -> None:
    for positions in ("start", "end"):
        model = build_classifier(max_offset=3, positions=positions)
        torch.manual_seed(0)
        plain = torch.tensor([1, 2] if positions == "start" else [2, 1])
        offsets = positions_of(model.train(), [[[2], [3]]] * 200).view(200, 2) - plain
        assert bool((offsets == offsets[:, :1]).all())
        assert set(offsets[:, 0].tolist()) == {0, 1, 2, 3}
        assert positions_of(model.eval(), [[[2], [3]]]).tolist() == plain.tolist()


def test_encoder_model_spreads_positions_in_training() -> None:
    model = build_classifier(max_offset=9, spread_positions=True, positions="end").train()
    drawn = positions_of(model, [[[2], [3], [4]]] * 100).view(100, 3)
    assert bool((drawn.diff(dim=1) < 0).all()) and int(drawn.min()) >= 1
    assert len(drawn.diff(dim=1).unique()) > 2
