from functools import partial
from typing import Any

import pytest
from sacrebleu import corpus_bleu

from graphut.experiments.tasks import Pair
from graphut.experiments.training import GenerationOptions
from graphut.experiments.training.learners.sequences import TranslationLearner
from graphut.models import UniversalTransformer
from graphut.models.outputs import Generation
from tests.experiments.tasks.tiny_translation import Numbers
from tests.experiments.training.learners.small_models import small_model

LEARNER = TranslationLearner
TEXTS = [
    ("a man rides", "ein Mann fährt"),
    ("a dog runs on the grass", "ein Hund läuft auf dem Gras"),
    ("two men", "zwei Männer"),
]


@pytest.fixture(scope="module")
def task() -> Numbers:
    return Numbers(subwords=270)


@pytest.fixture
def pairs(task: Numbers) -> list[Pair]:
    read = task.source_vocabulary.read
    return [(read(source), read(target)) for source, target in TEXTS]


make_model = partial(small_model, LEARNER, d_model=8, d_hidden=8)


def answering(
    monkeypatch: pytest.MonkeyPatch,
    model: UniversalTransformer,
    answers: dict[str, str],
    of: Numbers,
) -> list[dict[str, Any]]:
    """Make the model return these translations; return the options of each later call."""
    asked = []

    def generate(sources: list[list[int]], **options: Any) -> list[Generation]:
        asked.append(options)
        return [generation(source) for source in sources]

    def generation(source: list[int]) -> Generation:
        tokens = of.target_vocabulary.read(answers[of.source_vocabulary.write(source)])
        return Generation(tokens, 0.0, [2] * (len(tokens) + 1), [1] * len(source))

    monkeypatch.setattr(model, "generate", generate)
    return asked


def test_evaluate_in_detail_computes_the_bleu_of_the_texts(
    monkeypatch: pytest.MonkeyPatch, task: Numbers, pairs: list[Pair]
) -> None:
    model = make_model(task)
    answers = {
        "a man rides": "ein Mann  fährt",
        "a dog runs on the grass": "ein Hund läuft auf Gras",
        "two men": "zwei Mann",
    }
    answering(monkeypatch, model, answers, task)
    evaluation, more = LEARNER(model, task.vocabularies).evaluate_in_detail(pairs)
    outputs = [answers[source] for source, _ in TEXTS]
    assert evaluation["bleu"] == corpus_bleu(outputs, [[target for _, target in TEXTS]]).score
    assert (evaluation["encoder_steps"], evaluation["decoder_steps"]) == (1, 2)
    assert evaluation["sequence_accuracy"] == pytest.approx(1 / 3)
    assert str(evaluation) == (f"BLEU {evaluation['bleu']:.2f}, steps 1.00/2.00")
    assert more["bleu_signature"].startswith("nrefs:1|bs:1000|")
    assert 0 < more["bleu_interval"] < 100
    assert sum(row["examples"] for row in more["by_source_length"]) == 3


def test_generate_answers_with_text(monkeypatch: pytest.MonkeyPatch, task: Numbers) -> None:
    model = make_model(task)
    answering(monkeypatch, model, {"two men": "zwei  Männer"}, task)
    [said] = LEARNER(model, task.vocabularies).generate([" two men"], GenerationOptions())
    lines = str(said).splitlines()
    assert said.text == "zwei Männer"
    assert lines[-1] == "text    zwei Männer"
    assert [line.split()[0] for line in lines[:-1]] == ["input", "steps", "output", "steps"]
    assert lines[0].split()[1:] == task.source_vocabulary.readable(
        task.source_vocabulary.read("two men")
    )
