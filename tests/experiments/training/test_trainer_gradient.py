from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from graphut.experiments.tasks import Text
from graphut.experiments.tasks.graph_problems import GraphDistance
from graphut.experiments.training import TrainingConfig
from graphut.experiments.training.learners import AnyLearner
from graphut.experiments.training.learners.graphs import GraphLearner
from graphut.experiments.training.learners.sequences import PairLearner
from graphut.experiments.training.learners.texts import TextLearner
from graphut.experiments.training.trainer import add_gradient
from tests.experiments.training.together import run_together

CONFIG = TrainingConfig(label_smoothing=0.1)
EXTRA = "complete|star"
GRAPHS = GraphDistance(sizes="2-9", test_sizes="", held_out=3).test
OF_GRAPHS = {"num_kinds": 2, "classes": 2, "step_loss": "mean", "halting_loss": 0.5}
# Examples of different lengths: a part may have one example, or none with an answer.
CASES: dict[str, tuple[type[AnyLearner], dict[str, Any], list[Any]]] = {
    "pairs": (
        PairLearner,
        {"source_vocab": 9, "target_vocab": 9, "add_bos_eos": True}
        | {"encoder_topology": EXTRA, "decoder_topology": "binary_partition:1&causal"},
        [([5, 3, 2, 4, 5, 6, 7, 8], [3]), ([2], [2, 3, 4, 5, 6]), ([4], []), ([3, 2], [2, 3])],
    ),
    "texts": (
        TextLearner,
        {"vocab_size": 9},
        [Text([2, 3, 4, 5, 6, 7, 8]), Text([3]), Text([5, 1])],
    ),
    "answers of nodes": (GraphLearner, OF_GRAPHS, GRAPHS),
    **{
        f"answers of graphs, {loss}": (
            GraphLearner,
            {**OF_GRAPHS, "answer_at": "graph", "step_loss": loss},
            [graph._replace(labels=graph.labels[:1]) for graph in GRAPHS],
        )
        for loss in ("mean", "none")
    },
}


def make_learner(name: str) -> AnyLearner:
    kind, sizes, _ = CASES[name]
    shape = {"d_model": 8, "num_heads": 2, "d_hidden": 8, "max_steps": 4, **sizes}
    torch.manual_seed(0)
    model: Any = kind.model_kind(kind.model_kind.config_class(**shape)).double().train()
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return kind(model, {})


def gradients(name: str, size: int) -> dict[str, Tensor]:
    """Return the gradients for the first examples of a case, and the numbers for `Totals`."""
    learner, batch = make_learner(name), CASES[name][2]
    _, numbers = add_gradient(learner, CONFIG, batch[:size], 0.3)
    found = {key: parameter.grad for key, parameter in learner.model.named_parameters()}
    return {**found, "": numbers}


def one_process(name: str, size: int) -> dict[str, Tensor]:
    """Return the gradients by the formula of the loss."""
    learner, batch = make_learner(name), CASES[name][2]
    outcome = learner.outcome(batch[:size], CONFIG.label_smoothing)
    loss = outcome.loss + sum(added for added, _ in outcome.added.values())
    loss = loss + 0.3 * sum(ponder.cost for ponder in outcome.ponders.values())
    torch.autograd.backward(loss)
    return {key: parameter.grad for key, parameter in learner.model.named_parameters()}


def assert_close(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    for key, value in expected.items():
        torch.testing.assert_close(found[key], value, rtol=1e-10, atol=1e-10, msg=key)


@pytest.mark.parametrize("name", CASES)
def test_gradient_is_that_of_the_formula(name: str) -> None:
    for size in range(1, len(CASES[name][2]) + 1):
        assert_close(gradients(name, size), one_process(name, size))


@pytest.mark.parametrize("processes", [2, pytest.param(4, marks=pytest.mark.full)])
def test_gradient_does_not_depend_on_the_number_of_processes(
    processes: int, tmp_path: Path
) -> None:
    cases = [(name, size) for name in CASES for size in (1, 2, len(CASES[name][2]))]
    alone = {case: gradients(*case) for case in cases}

    def compare() -> None:
        for case, expected in alone.items():
            assert_close(gradients(*case), expected)

    run_together(compare, tmp_path, processes)
