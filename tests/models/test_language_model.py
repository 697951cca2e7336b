from typing import Any

import pytest
import torch
from torch import Tensor

from graphut._tokens import EOS
from graphut.nn import ACT, MultiHeadAttention, PositionwiseTransition
from graphut.topology import Causal
from tests.helpers import assert_same, name_of, refuses
from tests.models.cases import (
    CASES,
    SEARCHES,
    assert_decodes_as_forward,
    build_language_model,
    seeded,
)
from tests.nn.reference import dense_recurrence

TEXTS = list(CASES["texts"].samples)
WINDOWS = [text for text in TEXTS if text]
PAIRWISE = CASES["texts"].rows
SPECS = [
    "window:0|dilated:1,2&causal",
    "strided:2",
    "random:2@1&causal|window:0",
    "star&causal",
    "binary_partition:1&causal",
    "(window:1|virtual:2)&causal",
]


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("halted", ["copied", "frozen", "stale", "running"])
def test_language_model_equals_the_dense_recurrence(halted: str, ends: bool) -> None:
    model: Any = build_language_model(halted=halted)
    for text in WINDOWS:
        fed, labels = ([0, *text], [*text, EOS]) if ends else ([0, *text[:-1]], text)
        out, steps, *_ = dense_recurrence(
            model.decoder,
            Causal().graph([len(fed)]),
            model.embedding.weight[fed] * 8**0.5,
            positions=torch.arange(1, len(fed) + 1),
        )
        found = model([text], ends=ends)
        assert_same([found.logits], [out @ model.output.weight.T + model.output.bias])
        assert found.labels.tolist() == labels
        assert torch.equal(found.steps, steps)


@pytest.mark.parametrize("row", PAIRWISE, ids=name_of)
def test_generate_is_the_forward_pass_of_a_language_model_again_and_again(
    row: dict[str, Any],
) -> None:
    model = build_language_model(**row)
    assert_decodes_as_forward(model, TEXTS, 6)
    if model.config.adaptive:
        model.max_steps, model.rule = 3, ACT(threshold=0.6)
        assert_decodes_as_forward(model, TEXTS, 6)


@torch.no_grad()
def log_likelihood(model: Any, text: list[int], ends: bool) -> Tensor:
    output = model([text], ends=ends)
    return output.logits.log_softmax(-1).gather(1, output.labels[:, None])[:, 0]


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_generate_scores_sum_the_log_likelihood(search: dict[str, Any]) -> None:
    model = build_language_model()
    for prompt, found in zip(
        WINDOWS, model.generate(WINDOWS, max_length=5, **seeded(search)), strict=True
    ):
        ended = len(found.steps) > len(found.tokens)
        likely = log_likelihood(model, [*prompt, *found.tokens], ended)
        assert found.score == pytest.approx(float(likely[len(prompt) :].sum()), abs=1e-6)


@pytest.mark.filterwarnings("ignore:the topology .* whole prefix")
@pytest.mark.parametrize("spec", SPECS)
def test_language_model_takes_many_topologies(spec: str) -> None:
    model = build_language_model(topology=spec)
    assert_decodes_as_forward(model, TEXTS, 5)
    together = model(TEXTS)
    assert_same([together.logits], [torch.cat([model([text]).logits for text in TEXTS])])
    assert len(together.steps) == len(together.labels) <= len(together.ponder.steps)


class Twice(PositionwiseTransition):
    def forward(self, *args: Any, **options: Any) -> Tensor:
        return 2 * super().forward(*args, **options)


class Halved(MultiHeadAttention):
    def forward(self, *args: Any, **options: Any) -> Any:
        return super().forward(*args, **options) / 2


@pytest.mark.parametrize(
    "part", ["step", "attention", "its class", "transition", "class of the transition"]
)
def test_language_model_decodes_with_what_hooks_and_own_classes_do(part: str) -> None:
    model = build_language_model()
    step = model.decoder.step
    modules = {"step": step, "attention": step.attention, "transition": step.transition}
    if part == "its class":
        step.attention.__class__ = Halved
    elif part == "class of the transition":
        step.transition.__class__ = Twice
    else:
        modules[part].register_forward_hook(lambda module, args, out: 2 * out)
    [found] = model.generate([[3, 2]], max_length=4)
    scores = log_likelihood(model, [3, 2, *found.tokens], found.ended)
    assert found.score == pytest.approx(float(scores[2:].sum()))


def test_generate_refuses_a_topology_in_which_a_token_sees_none() -> None:
    model = build_language_model(topology="edges:0,0,0,1,1,1")
    for call in (lambda: model([[2, 3, 4]]), lambda: model.generate([[2, 3, 4]], max_length=3)):
        refuses(r"node 2 of a sentence has no .*\)\|window:0'", call)
