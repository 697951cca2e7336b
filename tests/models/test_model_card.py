from __future__ import annotations

import pytest

from graphut.models import UniversalTransformer
from graphut.models.model_card import model_card
from tests.models.cases import small


@pytest.mark.parametrize("license", [None, "mit"])
def test_model_card_has_the_header_of_the_hub(license: str | None) -> None:
    config = small(norm="pre")
    model = UniversalTransformer(config)
    text = model_card("ann/sort", model, config, about="\n## Results\n", license=license)
    data = pytest.importorskip("huggingface_hub").ModelCard(text).data.to_dict()
    assert data.pop("license", None) == license
    assert data == {
        "library_name": "graphut",
        "tags": ["universal-transformer", "adaptive-computation-time"],
    }
    weights = sum(parameter.numel() for parameter in model.parameters())
    assert f"A `UniversalTransformer` of graphut with {weights:,} weights." in text
    assert 'model = graphut.load("ann/sort")' in text and "\n## Results\n" in text


def test_model_card_names_what_is_not_as_by_default() -> None:
    config = small(norm="pre", dropout=0.0)
    text = model_card("ann/sort", UniversalTransformer(config), config)
    assert "`norm=pre`, " in text and "dropout" not in text and "`source_vocab=7`" in text
