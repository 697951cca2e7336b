from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from graphut.experiments.tasks import Copy, LteProgram, Pair, Sort
from graphut.experiments.training import GenerationOptions, by_length, evaluate, judge, summarize
from graphut.experiments.training.learners.pairs import PairLearner
from graphut.models import UniversalTransformer, UniversalTransformerConfig
from graphut.sentences import target_labels

LEARNER = PairLearner()
TASK = Sort(mean_length=3, length_deviation=1, held_out=5)
BATCH: list[Pair] = [([2, 3, 4], [2, 3, 4]), ([9], [9, 9])]


def make_model(**options: Any) -> UniversalTransformer:
    torch.manual_seed(0)
    sizes = {"d_model": 8, "num_heads": 2, "d_hidden": 8, "max_steps": 3, **options}
    return UniversalTransformer(
        UniversalTransformerConfig(**LEARNER.sizes(TASK), **sizes)  # type: ignore[arg-type]
    )


def test_the_task_decides_the_vocabularies_sizes() -> None:
    program = LteProgram()
    assert LEARNER.sizes(program) == {
        "source_vocab": len(program.source_vocabulary),
        "target_vocab": len(program.target_vocabulary),
    }
    assert set(LEARNER.sizes(program)) == set(LEARNER.from_task)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_an_outcome_is_the_formula(smoothing: float) -> None:
    model = make_model()
    graph = model.sentence_graph(*zip(*BATCH, strict=True))
    output, labels = model(graph), target_labels(graph)
    logs = output.logits.log_softmax(-1)
    likely = logs[torch.arange(len(labels)), labels]
    wanted = -((1 - smoothing) * likely + smoothing * logs.mean(-1)).mean()

    found = LEARNER.outcome(model, BATCH, smoothing)
    torch.testing.assert_close(found.prediction, wanted)
    assert found.labels == len(labels) == 4 + 3
    assert found.right == (output.logits.argmax(-1) == labels).sum()
    assert found.ponders["encoder"].cost == output.encoder.cost
    assert found.ponders["decoder"].cost == output.decoder.cost


def test_the_record_is_by_length() -> None:
    model = make_model()
    found, more = LEARNER.record(model, TASK.vocabularies, TASK.test)
    judgements = judge(model, TASK.test)
    assert found == summarize(judgements) == evaluate(model, TASK, TASK.test)
    assert more == {
        f"by_{side}": by_length(judgements, side) for side in ("source_length", "target_length")
    }


def test_the_search_reaches_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    model, asked = make_model(), []
    generate = model.generate

    def spy(*args: Any, **options: Any) -> Any:
        asked.append(options)
        return generate(*args, **options)

    monkeypatch.setattr(model, "generate", spy)
    LEARNER.record(model, TASK.vocabularies, TASK.test, beam_size=2, length_penalty=0.1)
    longest = max(len(target) for _, target in TASK.test)
    assert asked == [{"max_length": longest + 1, "beam_size": 2, "length_penalty": 0.1}]


def test_answers_are_shown_with_room_for_the_longest_target_and_its_eos(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, asked = make_model(), []
    generate = model.generate

    def spy(sources: Any, **options: Any) -> Any:
        asked.append((list(sources), options))
        return generate(sources, **options)

    monkeypatch.setattr(model, "generate", spy)
    assert len(list(LEARNER.show(model, TASK))) == 3
    longest = max(len(target) for _, target in TASK.test)
    assert asked == [([source for source, _ in TASK.test[:3]], {"max_length": longest + 1})]


def test_steps_stand_under_input_and_output() -> None:
    model, letters = make_model(), TASK.source_vocabulary
    texts = ["q d x a", "b", "qdxa"]
    sources = [letters.encode(text.replace(" ", "")) for text in texts]
    options = GenerationOptions(max_length=9)
    said = list(LEARNER.generate(model, TASK.vocabularies, texts, options))
    assert said[0] == said[2]
    for source, result, (answer, block) in zip(
        sources, model.generate(sources, max_length=9), said, strict=True
    ):
        asked, taken, answered, steps = (line.split() for line in block.splitlines()[:4])
        assert asked == ["input", *letters.decode(source)]
        assert answer == letters.write(result.tokens)
        assert taken == ["steps", *map(str, result.source_steps)]
        assert [s for s in answered[1:] if s != "<eos>"] == letters.decode(result.tokens)
        assert steps == ["steps", *map(str, result.steps)]


def test_pairs_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("b a\ta b\n")
    letters = Copy().source_vocabulary
    found = LEARNER.read(str(tmp_path / "pairs.tsv"), Copy().vocabularies)
    assert found == [(letters.encode("ba"), letters.encode("ab"))]
