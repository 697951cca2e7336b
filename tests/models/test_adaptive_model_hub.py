"""A class with the mixin of huggingface_hub, as `.github/INTEGRATIONS.md` shows it."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from graphut.models import (
    UniversalGraphTransformer,
    UniversalGraphTransformerConfig,
    UniversalTransformer,
    UniversalTransformerLM,
    UniversalTransformerLMConfig,
)
from tests.helpers import assert_same
from tests.models.cases import small

hub = pytest.importorskip("huggingface_hub")

SIZES = {"d_model": 8, "num_heads": 2, "d_hidden": 16}
MODELS: list[tuple[Any, Any]] = [
    (UniversalTransformer, small(norm="pre")),
    (UniversalTransformerLM, UniversalTransformerLMConfig(vocab_size=9, **SIZES)),
    (UniversalGraphTransformer, UniversalGraphTransformerConfig(num_kinds=4, classes=2, **SIZES)),
]


@pytest.mark.parametrize(("kind", "config"), MODELS, ids=lambda x: getattr(x, "__name__", ""))
def test_model_with_the_mixin_is_uploaded_and_loaded(
    kind: Any, config: Any, tmp_path: Path
) -> None:
    class HubModel(hub.PyTorchModelHubMixin, kind, library_name="graphut"):
        pass

    def upload(repo_id: str, folder_path: Path, **options: Any) -> None:
        for file in Path(folder_path).iterdir():
            (tmp_path / file.name).write_bytes(file.read_bytes())

    model = HubModel(config)
    with patch("huggingface_hub.hub_mixin.HfApi") as api:
        api.return_value.create_repo.return_value.repo_id = "ann/model"
        api.return_value.upload_folder.side_effect = upload
        model.push_to_hub("ann/model")
    again = HubModel.from_pretrained(tmp_path)
    assert again.config == config and not again.training
    assert_same([*again.state_dict().values()], [*model.state_dict().values()])
    assert "library_name: graphut" in (tmp_path / "README.md").read_text()
