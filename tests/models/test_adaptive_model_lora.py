"""LoRA in a whole model: merging changes into the weights and taking them out again."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphut import UniversalTransformer
from tests.helpers import assert_same
from tests.models.cases import SOURCES, assert_same_generations, build_model, logits_of
from tests.nn.adapters import LowRank


def add_lora(model: UniversalTransformer, *, exclude: str | None) -> list[LowRank]:
    """Change all linear maps, as `LoraConfig(target_modules="all-linear", exclude_modules=...)`."""
    changed = []
    for name, layer in [*model.named_modules()]:
        if type(layer) is nn.Linear and name != exclude:
            owner, _, own_name = name.rpartition(".")
            changed.append(LowRank(layer))
            setattr(model.get_submodule(owner), own_name, changed[-1])
    return changed


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize(("tie_output", "exclude"), [(True, "output"), (False, None)])
def test_adaptive_model_with_merged_lora_gives_the_same_answers(
    tie_output: bool, exclude: str | None, norm: str
) -> None:
    model = build_model(tie_output=tie_output, norm=norm)
    plain = logits_of(model)
    parts = add_lora(model, exclude=exclude)
    assert len(parts) == 15 + (not tie_output)
    expected, generated = logits_of(model), model.generate(SOURCES, max_length=5)
    assert not torch.allclose(expected, plain)
    for _ in range(2):  # merged, and then unmerged again
        for part in parts:
            part.merge()
        assert_same([logits_of(model)], [expected])
        assert_same_generations(model.generate(SOURCES, max_length=5), generated)
    assert not parts[0].is_merged


def test_adaptive_model_with_lora_in_a_tied_output_changes_its_embedding_when_merged() -> None:
    model = build_model(tie_output=True)
    parts = add_lora(model, exclude=None)
    expected, embedding = logits_of(model), model.target_embedding.weight.detach().clone()
    for part in parts:
        part.merge()
    assert not torch.allclose(model.target_embedding.weight, embedding)
    assert not torch.allclose(logits_of(model), expected)
