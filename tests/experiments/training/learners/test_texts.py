from dataclasses import dataclass
from functools import partial
from math import log
from random import Random

import pytest

from graphut.experiments.tasks import Text, TextTask, Vocabulary
from graphut.experiments.tasks.base import DrawnTask
from graphut.experiments.training import GenerationOptions, Trainer, TrainingConfig, evaluate
from graphut.experiments.training.learners import texts as module
from graphut.experiments.training.learners.texts import (
    TextLearner,
    joined,
    score_texts,
    token_metrics,
)
from graphut.models import UniversalTransformerLM
from graphut.vocabulary import Characters
from tests.experiments.training.learners.small_models import make_language_model, small_model

LEARNER = TextLearner


@dataclass(frozen=True)
class Counting(DrawnTask, TextTask):
    name = "counting-of-tests"
    epoch_size, held_out = 64, 40
    vocabulary = Characters.of("0123456789 ")  # type: ignore[assignment]

    def draw(self, count: int, part: str, *stream: int) -> list[Text]:
        random = Random(f"{part} {stream}")
        return [self.text(random.randrange(10)) for _ in range(count)]

    def text(self, start: int) -> Text:
        text = "".join(str((start + n) % 10) for n in range(8))
        return Text(self.vocabulary.read(text), 1, ("even", "odd")[start % 2])


TASK = Counting()
make_model = partial(small_model, LEARNER, TASK)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> UniversalTransformerLM:
    config = TrainingConfig(epochs=30, batch_size=16, learning_rate=1e-2, warmup=10)
    model, folder = make_model(), tmp_path_factory.mktemp("counting")
    Trainer(model, TASK, config, folder, report=lambda line: None).fit()
    return model.eval()


def test_evaluate_in_detail_is_by_group(trained: UniversalTransformerLM) -> None:
    evaluation, more = LEARNER(trained, TASK.vocabularies).evaluate_in_detail(TASK.test)
    scores = score_texts(trained, TASK.test)
    assert evaluation.metrics == token_metrics(scores)
    assert evaluation["accuracy"] == 1.0 and evaluation["nats"] < 0.3
    assert more["tokens"] == 40 * 7
    assert more["perplexity"] == pytest.approx(2 ** more["bits"])
    for row in more["by_group"]:
        texts = [text for text in TASK.test if text.group == row["group"]]
        assert row["examples"] == len(texts)
        assert row["nats"] == pytest.approx(evaluate(trained, TASK, texts)["nats"])
    plain = [Text(text.tokens) for text in TASK.test]
    assert "by_group" not in LEARNER(trained, TASK.vocabularies).evaluate_in_detail(plain)[1]


def test_generate_continues_texts(trained: UniversalTransformerLM) -> None:
    vocabularies: dict[str, Vocabulary] = {"text": TASK.vocabulary}
    options = GenerationOptions(max_length=5)
    first, second, new = LEARNER(trained, vocabularies).generate(["345", "89", ""], options)
    assert len(new.text) == 5
    for answer, expected in ((first, "34567890"), (second, "8901234")):
        assert answer.text == expected
        tokens, steps, nothing, text = str(answer).split("\n")
        assert (text, nothing) == (expected, "")
        assert tokens.split() == ["text", *expected]
        assert steps.split()[0] == "steps" and len(steps.split()) == 1 + len(expected)


TEXTS = [
    Text([3, 2, 5, 4, 1], group="b"),
    Text([6], group="a"),
    Text([2, 2, 5, 3, 4, 6], 3, "a"),
    Text([5, 4, 4], 2),
]


def naive(model: UniversalTransformerLM, text: Text) -> list[tuple[float, bool, int]]:
    """Return surprisal, correctness and steps of each token, from a separate run for each."""
    rows = []
    for place in range(text.context, len(text.tokens)):
        output, token = model([text.tokens[: place + 1]], ends=False), text.tokens[place]
        share = output.logits[-1].detach().softmax(0)
        rows.append((-log(share[token]), int(share.argmax()) == token, int(output.steps[-1])))
    return rows


@pytest.mark.parametrize("most", [1, 12, 2**14])
def test_score_texts_equals_separate_runs(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_TOKENS", most)
    model = make_language_model()
    scores = score_texts(model, TEXTS, [4, 7])
    assert model.training
    model.eval()
    assert [score.text for score in scores] == sorted(TEXTS, key=lambda text: len(text.tokens))
    for score in scores:
        nats, correct, steps = zip(*naive(model, score.text), strict=True)
        assert score.nats.tolist() == pytest.approx(nats, abs=1e-5)
        assert (score.correct.tolist(), score.steps.tolist()) == ([*correct], [*steps])
        logits = model([score.text.tokens], ends=False).logits[-1, [4, 7]]
        assert score.candidates.tolist() == pytest.approx(logits.tolist(), abs=1e-5)
    for name, count in (("steps", 2), ("correct", 2)):
        assert len(set(joined(scores, name).tolist())) >= count


def test_answers_count_the_likeliest_of_the_first_tokens() -> None:
    model = make_model().eval()
    text = TASK.vocabulary.read("0123456789" * 7)
    [answers] = LEARNER(model, TASK.vocabularies).answers([Text(text)])
    output = model([text], ends=False)
    right = (output.logits.argmax(-1) == output.labels)[:60].sum()
    assert answers.text == f"{right} of 60 tokens predicted correctly"
    assert (answers.correct, answers.is_correct) == ("", None)
    [part] = answers.parts
    assert part.names == TASK.vocabulary.decode(text[:60])
    assert part.reads == ["<bos>", *part.names[:-1]]
    assert part.steps == part.ponder.steps.tolist() == output.steps[:60].tolist()
    assert part.ponder.attention is not None
