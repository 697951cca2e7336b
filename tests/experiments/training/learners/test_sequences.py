from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from graphut.experiments.tasks import Pair, Sort
from graphut.experiments.tasks.algorithmic import AlgorithmicAddition
from graphut.experiments.training import GenerationOptions, evaluate
from graphut.experiments.training.learners.sequences import (
    PairLearner,
    by_number,
    decode,
    pair_metrics,
)
from tests.experiments.training.learners.small_models import small_model

LEARNER = PairLearner
TASK = Sort(mean_length=3, length_deviation=1, held_out=5)
OPTIONS = GenerationOptions(max_length=9)
make_model = partial(small_model, LEARNER, TASK, d_model=8, d_hidden=8)


def test_evaluate_in_detail_is_by_length() -> None:
    model = make_model()
    evaluation, details = LEARNER(model, TASK.vocabularies).evaluate_in_detail(TASK.test)
    answered = decode(model, TASK.test)
    assert evaluation == LEARNER.evaluation(**pair_metrics(answered))
    assert evaluation == evaluate(model, TASK, TASK.test)
    assert details == {"by_source_length": by_number(answered, lambda pair: len(pair[0]))}


def test_evaluate_refuses_a_task_with_other_symbols() -> None:
    model, before = make_model(), TASK.vocabularies
    model.vocabularies = {**before}
    with pytest.raises(ValueError, match="the model and the task have other vocabularies"):
        evaluate(model, AlgorithmicAddition(), [])
    assert model.vocabularies == before


def test_generate_describes_outputs_with_their_steps() -> None:
    model, letters = make_model(), TASK.source_vocabulary
    texts = ["q d x a", "b", "qdxa"]
    sources = [letters.encode(text.replace(" ", "")) for text in texts]
    results = model.generate(sources, max_length=9)
    answers = list(LEARNER(model, TASK.vocabularies).generate(texts, OPTIONS))
    assert answers[0] == answers[2]
    for source, result, answer in zip(sources, results, answers, strict=True):
        lines = [line.split() for line in str(answer).splitlines()]
        assert answer.text == letters.write(result.tokens)
        eos = ["<eos>"] * result.ended
        assert lines[:4] == [
            ["input", *letters.decode(source)],
            ["steps", *map(str, result.source_steps)],
            ["output", *letters.decode(result.tokens), *eos],
            ["steps", *map(str, result.steps)],
        ]
        assert ("cut off at the max_length of 9" in str(answer)) != result.ended
    with pytest.raises(ValueError, match="generated without get_attention"):
        _ = answers[0].parts[0].ponder


@pytest.mark.parametrize("add_bos_eos", [False, True])
def test_generate_with_attention_names_the_nodes_of_both_parts(add_bos_eos: bool) -> None:
    model = make_model(add_bos_eos=add_bos_eos)
    [plain] = LEARNER(model, TASK.vocabularies).generate(["q d x"], OPTIONS)
    [answer] = LEARNER(model, TASK.vocabularies).generate(["q d x"], OPTIONS, get_attention=True)
    assert answer.text == plain.text
    encoder, decoder = answer.parts
    framed = ["<bos>", "q", "d", "x", "<eos>"]
    assert encoder.names == encoder.reads == (framed if add_bos_eos else framed[1:-1])
    assert decoder.reads == ["<bos>", *decoder.names[:-1]]
    assert [name for name in decoder.names if name != "<eos>"] == answer.text.split()
    for part in (encoder, decoder):
        assert part.ponder.steps.tolist() == part.steps
    assert decoder.ponder.cross_attention is not None


def test_answers_are_compared_with_the_targets() -> None:
    model = make_model()
    source = TASK.source_vocabulary.encode("qdx")
    [wanted] = model.generate([source], max_length=9)
    other = [2, *wanted.tokens[1:]] if wanted.tokens[:1] != [2] else [3, *wanted.tokens[1:]]
    answers = LEARNER(model, TASK.vocabularies).answers([(source, wanted.tokens), (source, other)])
    assert [answer.is_correct for answer in answers] == [wanted.ended, False]
    assert answers[1].correct == TASK.target_vocabulary.write(other) != answers[1].text
    for answer in answers:
        assert answer.parts[0].names == ["q", "d", "x"] and answer.parts[1].reads[0] == "<bos>"


def result(tokens: list[int], source: list[int], steps: int = 1) -> Any:
    """Return an output whose source tokens take as many steps as the source is long."""
    return SimpleNamespace(
        tokens=tokens,
        steps=[steps] * (len(tokens) + 1),
        source_steps=[len(source)] * len(source),
    )


class FixedAnswers:
    def __init__(self, table: dict[tuple[int, ...], list[int]]) -> None:
        self.table = table
        self.calls: list[tuple[int, dict[str, Any]]] = []

    def generate(self, sources: list[list[int]], *, max_length: int, **options: Any) -> list[Any]:
        self.calls.append((len(sources), options))
        return [result(self.table[tuple(source)][:max_length], source) for source in sources]


@pytest.mark.parametrize(
    ("output", "target", "tokens"),
    [
        ([5, 6, 7], [5, 6, 7], 1.0),
        ([5, 6, 8], [5, 6, 7], 3 / 4),
        ([5, 6], [5, 6, 7], 2 / 4),
        ([], [5, 6, 7], 0 / 4),
        ([5, 6, 7, 7], [5, 6, 7], 3 / 4),
        ([6, 5, 7, 7, 7, 7], [5, 6, 7], 1 / 4),
        ([], [], 1.0),
    ],
)
def test_pair_metrics_of_one_output(output: list[int], target: list[int], tokens: float) -> None:
    metrics = pair_metrics([(([2], target), result(output, [2]))])
    assert (metrics["sequence_accuracy"], metrics["token_accuracy"]) == (float(tokens == 1), tokens)


PAIRS: list[Pair] = [([2, 3, 4], [7, 7]), ([2], [8]), ([3], [9, 9])]
TABLE = {(2, 3, 4): [7, 7], (2,): [8], (3,): [9, 8]}


def test_decode_keeps_the_order_and_begins_with_the_shortest() -> None:
    model: Any = FixedAnswers({**TABLE, (3,): [9, 8, 7, 6]})
    answered = decode(model, PAIRS, batch_size=2, beam_size=4)
    assert [pair for pair, _ in answered] == PAIRS
    # Answers end after the longest target.
    assert [answer.tokens for _, answer in answered] == [[7, 7], [8], [9, 8, 7]]
    assert model.calls == [(2, {"beam_size": 4}), (1, {"beam_size": 4})]
    assert [*pair_metrics(answered).values()] == [2 / 3, 6 / 8, (3 * 3 + 1 + 1) / 5, 1.0]


@pytest.mark.parametrize(
    ("longest", "width"), [(1, 1), (20, 1), (21, 2), (41, 5), (400, 20), (1016, 100)]
)
def test_by_number_covers_all_numbers_in_at_most_twenty_rows(longest: int, width: int) -> None:
    answered = [(([2], [n]), result([], [2])) for n in range(1, longest + 1)]
    rows = by_number(answered, lambda pair: pair[1][0])
    assert len(rows) <= 20
    assert all(row["to"] - row["from"] + 1 == row["examples"] <= width for row in rows)
    assert [row["from"] for row in rows] == [1 + width * index for index in range(len(rows))]
    assert rows[-1]["to"] == longest
