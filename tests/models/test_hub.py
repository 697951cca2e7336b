import sys
from pathlib import Path

import pytest
import torch

import graphut
from graphut.models import UniversalTransformer
from graphut.models.hub import model_card, model_folder, push_folder
from graphut.nn import Threshold
from tests.helpers import refuses
from tests.models.cases import build_model, logits_of, small
from tests.models.hub import Hub


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    monkeypatch.chdir(tmp_path)  # where there is no folder called ann
    return Hub(tmp_path / "cache", monkeypatch)


def test_push_to_hub_and_from_pretrained(hub: Hub) -> None:
    model = build_model()
    model.max_steps, model.evaluation_rule = 9, Threshold(0.4)
    address = model.push_to_hub("ann/sort", private=True, commit_message="A first try")
    assert address == f"{hub.address}/ann/sort"
    assert (hub.made, hub.messages) == ([True], ["A first try"])
    assert sorted(hub.files("ann/sort")) == ["README.md", "config.json", "model.safetensors"]
    for again in (UniversalTransformer.from_pretrained("ann/sort"), graphut.load("ann/sort")):
        assert isinstance(again, UniversalTransformer)
        assert (again.max_steps, again.evaluation_rule) == (9, Threshold(0.4))
        assert torch.equal(logits_of(again), logits_of(model))
    downloads = sorted(path.name for path in model_folder("ann/sort").iterdir())
    assert downloads == ["config.json", "model.safetensors"]


def test_push_to_hub_writes_a_card_and_keeps_one(hub: Hub) -> None:
    build_model().push_to_hub("ann/sort")
    card = hub.files("ann/sort")["README.md"].decode()
    assert card.startswith("---\nlibrary_name: graphut\n") and 'load("ann/sort")' in card
    hub.commit("ann/sort", **{"README.md": b"by hand"})
    build_model(seed=1).push_to_hub("ann/sort")
    assert hub.files("ann/sort")["README.md"] == b"by hand"
    assert torch.equal(logits_of(graphut.load("ann/sort")), logits_of(build_model(seed=1)))


def test_from_pretrained_takes_a_revision(hub: Hub) -> None:
    models = build_model(), build_model(seed=1)
    for model in models:
        model.push_to_hub("ann/sort")
    for number, model in enumerate(models, 1):
        again = UniversalTransformer.from_pretrained("ann/sort", revision=str(number))
        assert torch.equal(logits_of(again), logits_of(model))


def test_model_folder_takes_a_folder_of_that_name_first(hub: Hub) -> None:
    build_model().push_to_hub("ann/sort")
    build_model(seed=1).save_pretrained("ann/sort")
    assert model_folder("ann/sort") == Path("ann/sort")
    assert torch.equal(logits_of(graphut.load("ann/sort")), logits_of(build_model(seed=1)))
    for name, found in (("ann/sort", "the folder ann/sort"), ("nosuch", "nosuch")):
        message = f"^revision='v1' is for a repository .*, such as 'name/repo'; got {found}$"
        refuses(message, model_folder, name, "v1")


@pytest.mark.parametrize(
    ("name", "revision", "kind", "message"),
    [
        ("ann/copy", None, OSError, r"no folder ann/copy, and no ann/copy on .*: check the name"),
        ("ann/sort", "v9", OSError, r"no ann/sort on .* at revision 'v9': .*Revision Not Found"),
        ("ann/half", None, ValueError, "ann/half on the .* is not a model: it has no model.safete"),
        *(
            (name, None, FileNotFoundError, f"there is no folder {Path(name)}")
            for name in ("nowhere", "./no/where", "a/b/c", "../b", "/a/b", "a/")
        ),
    ],
)
def test_model_folder_names_what_is_not_there(
    name: str, revision: str | None, kind: type[Exception], message: str, hub: Hub
) -> None:
    hub.commit("ann/sort")
    hub.commit("ann/half", **{"config.json": b"{}"})
    with pytest.raises(kind, match=message):
        graphut.load(name, revision=revision)


def test_push_folder_says_why_it_is_refused(hub: Hub) -> None:
    hub.refuses = True
    with pytest.raises(OSError, match=r"upload to ann/sort on the .* hub: .*\b401 "):
        build_model().push_to_hub("ann/sort")
    assert hub.commits == {}


def test_the_hub_is_an_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match=r"no folder ann/sort.*: .* pip install huggingface_hub"):
        graphut.load("ann/sort")
    with pytest.raises(ImportError, match=r"upload to ann/sort .* pip install huggingface_hub"):
        push_folder(tmp_path, "ann/sort", [], private=None, message="")


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
    assert "`norm=pre`, " in text and "dropout" not in text and "`source_vocab=7`" in text
