from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from graphut import models
from graphut.models import UniversalTransformer, load
from graphut.nn import (
    Convergence,
    EventDriven,
    FixedDepth,
    Global,
    Ponder,
    PonderNet,
    Threshold,
)
from tests.helpers import assert_same, gradients, refuses
from tests.models.cases import (
    CASES,
    SOURCES,
    assert_decodes_as_forward,
    build_model,
    logits_of,
    rows_of,
    small,
)


@pytest.fixture
def model() -> UniversalTransformer:
    return build_model()


def test_rules_are_those_of_all_recurrences(model: UniversalTransformer) -> None:
    model.rule = PonderNet()
    assert model.evaluation_rule == model.encoder.evaluation_rule == PonderNet().for_evaluation()
    model.evaluation_rule = Threshold(0.3)
    assert model.decoder.active_rule == Threshold(0.3)
    assert model.train().decoder.active_rule == model.encoder.rule == PonderNet()
    refuses("a rule is a HaltingRule such as ACT.*, got 'act'", setattr, model, "rule", "act")
    refuses(r"Global\(.* cannot be used in a dec", setattr, model, "rule", Global())
    final = "evaluation_rule", EventDriven()
    refuses(r"EventDriven\(.* cannot be used in a dec", setattr, model, *final)
    for steps in (0, -1, 2.5):
        refuses(rf"max_steps must .* got {steps}", setattr, model, "max_steps", steps)
    assert model.decoder.active_rule == PonderNet() and model.max_steps == 5


def test_rules_of_a_model_without_halting_are_saved(tmp_path: Path) -> None:
    model = UniversalTransformer(small(adaptive=False)).eval()
    model.rule = Convergence(0.2)
    model.save_pretrained(tmp_path)
    again = load(tmp_path)
    assert again.evaluation_rule == Convergence(0.2) and again.rule == FixedDepth()
    assert_same([logits_of(again)], [logits_of(model)])


def test_adaptive_model_takes_another_default_dtype() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        model = UniversalTransformer(small()).eval()
        assert {parameter.dtype for parameter in model.parameters()} == {torch.float64}
        assert logits_of(model).dtype == torch.float64
        model.generate(SOURCES, max_length=3, beam_size=2)
    finally:
        torch.set_default_dtype(torch.float32)
    assert logits_of(model).dtype == torch.float64
    assert_decodes_as_forward(model, SOURCES, 4)


def test_reset_parameters_draws_all_anew(model: UniversalTransformer) -> None:
    draws = [[parameter.clone() for parameter in model.parameters()]]
    for _ in range(2):
        torch.manual_seed(0)
        model.reset_parameters()
        draws.append([parameter.clone() for parameter in model.parameters()])
    assert not any(map(torch.equal, draws[0], draws[1]))
    assert all(map(torch.equal, draws[1], draws[2]))


class Merging(nn.Linear):
    """As a layer of LoRA: in evaluation its weights are merged, and in training they are not."""

    merged = False

    def train(self, mode: bool = True) -> Merging:
        self.merged = not mode
        return super().train(mode)


def test_evaluating_lets_each_module_go_back_to_training(model: UniversalTransformer) -> None:
    layer = Merging(4, 4)
    model.decoder.step.attention.query = layer
    model.train()
    with model.evaluating():
        assert layer.merged
    assert not layer.merged


EVERY = [(name, row) for name, case in CASES.items() for row in case.rows]
EVERY_ROW = pytest.mark.parametrize(("name", "row"), EVERY, ids=lambda x: str(x)[:90])


@EVERY_ROW
def test_models_compute_a_batch_like_its_parts(name: str, row: dict[str, Any]) -> None:
    case = CASES[name]
    model = case.build(**row)
    together = case.run(model)
    alone = [rows_of(case.run(model, [sample])) for sample in case.samples]
    assert_same(rows_of(together), [torch.cat(parts) for parts in zip(*alone, strict=True)])


@EVERY_ROW
def test_gradients_reach_every_parameter(name: str, row: dict[str, Any]) -> None:
    case = CASES[name]
    model = case.build(**row).train()
    output = case.run(model)
    costs = [part.cost for part in output if isinstance(part, Ponder)]
    names, parameters = zip(*model.named_parameters(), strict=True)
    found = gradients([output[0], *costs], parameters)
    # The bias of the keys changes all scores equally, which a softmax ignores.
    without = [n for n, g in zip(names, found, strict=True) if not g.abs().sum() > 1e-9]
    assert without == [name for name in names if name.endswith("key.bias")]


LISTS = r"\[1\] is empty: it needs at least one token"
OUTSIDE = "is outside the vocabulary of 7 tokens, 0 to 6"
LONG = "tokens, but the model takes at most 6"


@pytest.mark.parametrize(
    ("name", "samples", "message"),
    [
        ("pairs", [], "sources is empty"),
        ("pairs", [([2], [2]), ([], [2])], f"sources{LISTS}"),
        ("pairs", [([3, 7], [])], f"source token 7 {OUTSIDE}"),
        ("pairs", [([2], [2, 8])], f"target token 8 {OUTSIDE}"),
        ("pairs", [([2] * 7, [])], f"a source sentence has 7 {LONG}"),
        ("pairs", [([2], [2] * 6)], f"a target sentence, with its <eos>, has 7 {LONG}"),
        ("texts", [], "texts is empty"),
        ("texts", [[2], [3, 7]], f"token 7 {OUTSIDE}"),
        ("texts", [[2] * 6], f"a text, with its <eos>, has 7 {LONG}"),
    ],
)
def test_models_refuse_samples_that_do_not_fit(name: str, samples: Any, message: str) -> None:
    model = CASES[name].build(max_length=6)
    calls = [model]
    if name == "pairs":
        samples = [list(side) for side in zip(*samples, strict=True)] or [[], []]
        calls = [lambda pairs: model(*pairs), lambda pairs: model(model.sentence_graph(*pairs))]
        if "target" not in message and samples[0]:  # no sources have no outputs
            calls.append(lambda pairs: model.generate(pairs[0], max_length=3))
    for call in calls:
        refuses(message, call, samples)


def test_generate_refuses_prompts_that_do_not_fit() -> None:
    generate = partial(CASES["texts"].build(max_length=6).generate, max_length=3)
    assert generate([]) == []
    refuses(f"token 7 {OUTSIDE}", generate, [[2, 7]])
    refuses(f"an output of generate.max_length=3. has 7 {LONG}", generate, [[2] * 4])


def test_models_refuse_configurations_and_inputs_of_others(model: UniversalTransformer) -> None:
    refuses("LM takes a .*LMConfig, got a .*rConfig", models.UniversalTransformerLM, small())
    refuses("or sources and targets; got a list alone", model, [[5, 3]])
    graph, texts = model.sentence_graph([[5, 3]], [[5]]), CASES["texts"].build()
    refuses("the graph contains the targets: pass sources and targets", model, graph, [[5]])
    refuses(
        "no target nodes: give sentence_graph the targets", model, model.sentence_graph(SOURCES)
    )
    refuses("must be a list of sentences, got Graph", texts, graph)
    refuses(f"texts{LISTS}", texts, [[2], []], ends=False)


@pytest.mark.parametrize("name", CASES)
def test_models_of_these_tests_take_different_numbers_of_steps(name: str) -> None:
    for norm in ("post", "pre"):
        output = CASES[name].run(CASES[name].build(norm=norm))
        for ponder in (part for part in output if isinstance(part, Ponder)):
            assert len(ponder.steps.unique()) >= 3
