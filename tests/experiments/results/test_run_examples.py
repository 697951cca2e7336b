from __future__ import annotations

import base64
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphut.experiments.results import run_examples
from graphut.experiments.results.run_examples import show_examples
from graphut.experiments.tasks.graph_problems import GraphReach
from graphut.experiments.training import Run
from graphut.experiments.training.generation import attention_tables
from graphut.experiments.training.learners.graphs import GraphLearner
from graphut.experiments.training.learners.pairs import PairLearner
from graphut.models import UniversalGraphTransformer, UniversalGraphTransformerConfig

CPU = torch.device("cpu")


def shown(folder: Path) -> Any:
    run = Run.open(folder)
    task, model = run.task(), run.trained_model(CPU)
    return run, task, model, show_examples(run, task, model, len(task.test))


def test_show_examples_has_the_weights_and_the_steps_of_the_model(runs: dict[str, Path]) -> None:
    run, task, model, (examples, verdicts) = shown(runs["small"])
    assert verdicts.total() == 4 and examples
    for example in examples:
        verdict, _, number = example.title.rpartition(": test example ")
        found = run.learner.answer(model, task, task.test[int(number) - 1])
        assert (verdict == "Right") == found.is_right
        assert (example.answer, example.right_answer) == (found.answer, found.right_answer)
        for part in found.parts:
            steps = part.ponder.steps.tolist()
            for name, count in zip(part.names, steps, strict=True):
                assert (
                    f"{name.replace('<', '&lt;').replace('>', '&gt;')}<sub>{count}" in example.steps
                )
        tables = [*attention_tables(found.parts)]
        assert [table.title for table in tables] == ["encoder", "decoder", "decoder to encoder"]
        for table, numbers in zip(tables, example.attention, strict=True):
            assert (numbers["queries"], numbers["keys"]) == (table.queries, table.keys)
            shape = (numbers["steps"], numbers["heads"], len(table.queries), len(table.keys))
            weights = torch.tensor(numbers["weights"]).view(shape) / 1000
            torch.testing.assert_close(weights, table.weights, atol=5.1e-4, rtol=0)
            assert (
                ((table.weights.sum(-1) - 1).abs() < 1e-5)
                .logical_or(table.weights.sum(-1) == 0)
                .all()
            )
        assert example.graph is None


def test_show_examples_takes_short_and_long_ones_right_and_wrong(
    runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = PairLearner.answers
    lengths = [4, 1, 3, 2, 5, 6, 9, 7, 8]
    right = {4, 1, 3, 2}

    def of_length(self: Any, model: Any, task: Any, examples: list[int]) -> Any:
        found = answers(self, model, task, [([2] * length, [2]) for length in examples])
        return [
            each._replace(is_right=length in right, parts=each.parts[:1])
            for each, length in zip(found, examples, strict=True)
        ]

    monkeypatch.setattr(PairLearner, "answers", of_length)
    run = Run.open(runs["small"])
    task: Any = SimpleNamespace(test=lengths, vocabularies=run.vocabularies)
    task.target_vocabulary = run.vocabularies["target"]
    found, verdicts = show_examples(run, task, run.trained_model(CPU), len(lengths))
    assert verdicts == {False: 5, True: 4, None: 0}
    numbers = [int(example.title.rpartition(" ")[2]) for example in found]
    assert [lengths[number - 1] for number in numbers] == [5, 7, 9, 1, 3, 4]
    assert [example.title.split(":")[0] for example in found] == ["Wrong"] * 3 + ["Right"] * 3


def test_show_examples_leaves_out_attention_that_is_too_large(
    runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = shown(runs["small"])[3][0]
    room = sum(len(table["weights"]) for table in whole[0].attention)
    for size, kept in ((room, 1), (room - 1, 0)):
        monkeypatch.setattr(run_examples, "_MOST_WEIGHTS", size)
        found = shown(runs["small"])[3][0]
        assert (found[0].attention is not None) == kept
        assert all(example.attention is None for example in found[1:] if kept)
        assert [example.steps for example in found] == [example.steps for example in whole]


@pytest.mark.parametrize(("size", "is_drawn"), [(2, True), (12, True), (60, True), (61, False)])
def test_show_examples_draws_small_graphs(size: int, is_drawn: bool) -> None:
    task = GraphReach(sizes=f"{size}-{size}", held_out=1, test_sizes="")  # a forest
    learner = GraphLearner()
    sizes: Any = {"d_model": 8, "num_heads": 2, "d_hidden": 8, "max_steps": 2}
    config = UniversalGraphTransformerConfig(**learner.sizes(task), **sizes)
    found = learner.answer(UniversalGraphTransformer(config), task, task.test[0])
    picture = run_examples._draw_graph(found.parts[0])
    assert (picture is not None) == is_drawn
    if picture is not None:
        assert base64.b64decode(picture.png).startswith(b"\x89PNG")
        assert f"step 1: {size} of {size} active" in picture.alt
