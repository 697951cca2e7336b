from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

from graphut.experiments.tasks import Text, TextTask, Vocabulary
from graphut.experiments.tasks.vocabulary import Characters
from graphut.experiments.training import GenerationOptions, Trainer, TrainingConfig, evaluate
from graphut.experiments.training.learners.text_judgement import score
from graphut.experiments.training.learners.texts import TextLearner
from graphut.models import UniversalTransformerLM, UniversalTransformerLMConfig

LEARNER = TextLearner()


@dataclass(frozen=True)
class Counting(TextTask):
    """Digits that go up by one."""

    name = "counting-of-tests"
    vocabulary = Characters.of("0123456789 ")  # type: ignore[assignment]
    vocabulary_kind = Characters

    def train(self, seed: int, epoch: int) -> list[Text]:
        return self._draw(Random(seed * 1000 + epoch + 1), 64)

    @property
    def validation(self) -> list[Text]:
        return self._draw(Random(-1), 20)

    @property
    def test(self) -> list[Text]:
        return self._draw(Random(-2), 20)

    def _draw(self, random: Random, count: int) -> list[Text]:
        starts = [random.randrange(10) for _ in range(count)]
        written = ["".join(str((start + n) % 10) for n in range(8)) for start in starts]
        return [
            Text(self.vocabulary.read(text), 1, "even" if int(text[0]) % 2 == 0 else "odd")
            for text in written
        ]


TASK = Counting()


def make_model(**options: Any) -> UniversalTransformerLM:
    torch.manual_seed(0)
    sizes = {"d_model": 16, "num_heads": 2, "d_hidden": 32, "max_steps": 3, **options}
    return UniversalTransformerLM(UniversalTransformerLMConfig(**LEARNER.sizes(TASK), **sizes))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> UniversalTransformerLM:
    config = TrainingConfig(epochs=30, batch_size=16, learning_rate=1e-2, warmup=10)
    model, folder = make_model(), tmp_path_factory.mktemp("counting")
    Trainer(model, TASK, config, folder, report=lambda line: None).fit()
    return model.eval()


def test_the_task_decides_the_sizes() -> None:
    assert LEARNER.sizes(TASK) == {"vocab_size": 2 + 11}


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_an_outcome_is_the_formula(smoothing: float) -> None:
    model = make_model().eval()
    batch = [Text([3, 4, 5]), Text([6, 1]), Text([7, 7, 7, 8], context=2)]
    found = LEARNER.outcome(model, batch, smoothing)
    outputs = [model([text.tokens], ends=False) for text in batch]
    logs = torch.cat([output.logits for output in outputs]).log_softmax(-1)
    labels = torch.tensor([token for text in batch for token in text.tokens])
    likely = logs[torch.arange(9), labels]
    wanted = -((1 - smoothing) * likely + smoothing * logs.mean(-1)).mean()
    torch.testing.assert_close(found.prediction, wanted)
    assert (found.labels, int(found.right)) == (9, int((logs.argmax(-1) == labels).sum()))
    assert list(found.ponders) == ["decoder"]
    assert len(found.ponders["decoder"].steps) == 9


def test_it_learns_to_count(trained: UniversalTransformerLM) -> None:
    found = evaluate(trained, TASK, TASK.test)
    assert found.accuracy == 1.0 and found.nats < 0.3  # type: ignore[attr-defined]


def test_the_record_has_the_whole_and_its_groups(trained: UniversalTransformerLM) -> None:
    evaluation, more = LEARNER.record(trained, TASK.vocabularies, TASK.test)
    scores = score(trained, TASK.test)
    assert evaluation == scores.evaluation()
    assert more["tokens"] == 20 * 7
    assert more["perplexity"] == pytest.approx(2 ** more["bits"])
    assert sum(row["tokens"] for row in more["by_surprisal"]) == 20 * 7
    for row in more["by_group"]:
        texts = [text for text in TASK.test if text.group == row["group"]]
        assert row["examples"] == len(texts)
        assert row["nats"] == pytest.approx(evaluate(trained, TASK, texts).nats)  # type: ignore[attr-defined]
    plain = [Text(text.tokens) for text in TASK.test]
    assert "by_group" not in LEARNER.record(trained, TASK.vocabularies, plain)[1]


def test_texts_go_on(trained: UniversalTransformerLM) -> None:
    vocabularies: dict[str, Vocabulary] = {"text": TASK.vocabulary}
    options = GenerationOptions(max_length=5)
    said = list(LEARNER.generate(trained, vocabularies, ["345", "89"], options))
    for (answer, block), expected in zip(said, ["34567890", "8901234"], strict=True):
        assert answer == expected
        text, nothing, tokens, steps = block.split("\n")
        assert (text, nothing) == (expected, "")
        assert tokens.split() == ["text", *expected]
        assert steps.split()[0] == "steps" and len(steps.split()) == 1 + len(expected)


def test_a_text_is_drawn_the_same_from_the_same_seed() -> None:
    model, vocabularies = make_model(), {"text": TASK.vocabulary}

    def draw(seed: int) -> list[str]:
        options = GenerationOptions(temperature=1.0, top_p=0.9, max_length=20, seed=seed)
        return [said.answer for said in LEARNER.generate(model, vocabularies, ["1"], options)]

    assert draw(0) == draw(0) != draw(1)


def test_an_empty_text_goes_on_from_nothing(trained: UniversalTransformerLM) -> None:
    options = GenerationOptions(max_length=3)
    [said] = LEARNER.generate(trained, {"text": TASK.vocabulary}, [""], options)
    assert len(said.answer) == 3


def test_a_few_test_texts_are_shown(trained: UniversalTransformerLM) -> None:
    said = list(LEARNER.show(trained, TASK))
    assert len(said) == 2
    for block, text in zip(said, TASK.test, strict=False):
        assert block.startswith(TASK.vocabulary.write(text.tokens))


@pytest.mark.parametrize("max_length", [2, 8, 40])
def test_what_is_shown_fits_the_model(max_length: int) -> None:
    for said in LEARNER.show(make_model(max_length=max_length), TASK):
        assert len(said.partition("\n")[0]) in range(1, max_length + 1)


def test_an_unknown_character_is_quoted(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown symbol 'x'"):
        list(
            LEARNER.generate(
                make_model(), {"text": TASK.vocabulary}, ["x"], GenerationOptions(max_length=3)
            )
        )
