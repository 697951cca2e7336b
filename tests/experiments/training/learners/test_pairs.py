from __future__ import annotations

from functools import partial
from pathlib import Path
from string import digits
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphut.experiments.tasks import Copy, Pair, Sort
from graphut.experiments.tasks.listops import ListOps
from graphut.experiments.tasks.lte import LteProgram
from graphut.experiments.training import Evaluation, GenerationOptions, evaluate
from graphut.experiments.training.learners.pairs import (
    PairLearner,
    PairScore,
    by_length,
    decode,
    pair_metrics,
    score_pairs,
)
from graphut.sentences import target_labels
from tests.experiments.training.learners.small_models import small_model

LEARNER = PairLearner()
TASK = Sort(mean_length=3, length_deviation=1, held_out=5)
BATCH: list[Pair] = [([2, 3, 4], [2, 3, 4]), ([9], [9, 9])]


make_model = partial(small_model, LEARNER, TASK, d_model=8, d_hidden=8)


def test_sizes_are_the_sizes_of_the_vocabularies() -> None:
    program = LteProgram()
    assert LEARNER.sizes(program) == {
        "source_vocab": len(program.source_vocabulary),
        "target_vocab": len(program.target_vocabulary),
    }
    assert set(LEARNER.sizes(program)) == set(LEARNER.from_task)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_outcome_equals_the_formula(smoothing: float) -> None:
    model = make_model()
    graph = model.sentence_graph(*zip(*BATCH, strict=True))
    output, labels = model(graph), target_labels(graph)
    logs = output.logits.log_softmax(-1)
    likely = logs[torch.arange(len(labels)), labels]
    wanted = -((1 - smoothing) * likely + smoothing * logs.mean(-1)).mean()

    found = LEARNER.outcome(model, BATCH, smoothing)
    torch.testing.assert_close(found.loss, wanted)
    assert found.labels == len(labels) == 4 + 3
    assert found.right == (output.logits.argmax(-1) == labels).sum()
    assert found.ponders["encoder"].cost == output.encoder.cost
    assert found.ponders["decoder"].cost == output.decoder.cost


def test_evaluate_in_detail_is_by_length() -> None:
    model = make_model()
    found, more = LEARNER.evaluate_in_detail(model, TASK.vocabularies, TASK.test)
    scores = score(model, TASK.test)
    assert found == summary(scores) == evaluate(model, TASK, TASK.test)
    assert more == {
        f"by_{side}": by_length(scores, side) for side in ("source_length", "target_length")
    }


def test_evaluate_in_detail_of_brackets_is_by_nesting_too() -> None:
    task = ListOps(train_size=1, held_out=30, longest=40)
    model = small_model(LEARNER, task, d_model=8, d_hidden=8, max_steps=2)
    _, more = LEARNER.evaluate_in_detail(model, task.vocabularies, task.test)
    depths = [nesting_depth(task.source_vocabulary.write(source)) for source, _ in task.test]
    counts = [(row["from"], row["to"], row["examples"]) for row in more["by_nesting"]]
    assert counts == [(depth, depth, depths.count(depth)) for depth in sorted({*depths})]
    assert len(counts) > 1
    first = [task.source_vocabulary.write(source).split()[0] for source, _ in task.test]
    operators = [(row["operator"], row["examples"]) for row in more["by_operator"]]
    assert operators == [(name, first.count(name)) for name in sorted({*first} - {*digits})]


def nesting_depth(text: str) -> int:
    return max(text[:n].count("[") - text[:n].count("]") for n in range(len(text)))


def test_evaluate_in_detail_passes_options_to_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    model, asked = make_model(), []
    generate = model.generate

    def spy(*args: Any, **options: Any) -> Any:
        asked.append(options)
        return generate(*args, **options)

    monkeypatch.setattr(model, "generate", spy)
    LEARNER.evaluate_in_detail(model, TASK.vocabularies, TASK.test, beam_size=2, length_penalty=0.1)
    longest = max(len(target) for _, target in TASK.test)
    assert asked == [{"max_length": longest + 1, "beam_size": 2, "length_penalty": 0.1}]


def test_generate_describes_outputs_with_their_steps() -> None:
    model, letters = make_model(), TASK.source_vocabulary
    texts = ["q d x a", "b", "qdxa"]
    sources = [letters.encode(text.replace(" ", "")) for text in texts]
    options = GenerationOptions(max_length=9)
    said = list(LEARNER.generate(model, TASK.vocabularies, texts, options))
    assert said[0] == said[2]
    for source, result, answer in zip(
        sources, model.generate(sources, max_length=9), said, strict=True
    ):
        asked, taken, answered, steps = (line.split() for line in str(answer).splitlines()[:4])
        assert asked == ["input", *letters.decode(source)]
        assert answer.text == letters.write(result.tokens)
        assert taken == ["steps", *map(str, result.source_steps)]
        assert [s for s in answered[1:] if s != "<eos>"] == letters.decode(result.tokens)
        assert steps == ["steps", *map(str, result.steps)]
        assert ("cut off at the max_length of 9" in str(answer)) != result.ended
    with pytest.raises(ValueError, match="generated without get_attention"):
        _ = said[0].parts[0].ponder


@pytest.mark.parametrize("add_bos_eos", [False, True])
def test_generate_with_attention_names_the_nodes_of_both_parts(add_bos_eos: bool) -> None:
    model, options = make_model(add_bos_eos=add_bos_eos), GenerationOptions(max_length=9)
    [plain] = LEARNER.generate(model, TASK.vocabularies, ["q d x"], options)
    [answer] = LEARNER.generate(model, TASK.vocabularies, ["q d x"], options, get_attention=True)
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
    found = LEARNER.answers(model, TASK, [(source, wanted.tokens), (source, other)])
    assert [answer.is_correct for answer in found] == [wanted.ended, False]
    assert found[1].correct == TASK.target_vocabulary.write(other) != found[1].text
    for answer in found:
        encoder, decoder = answer.parts
        assert encoder.names == ["q", "d", "x"] and decoder.reads[0] == "<bos>"
        assert [name for name in decoder.names if name != "<eos>"] == answer.text.split()


def test_read_pairs_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("b a\ta b\n")
    letters = Copy().source_vocabulary
    config = make_model().config
    found = LEARNER.read(str(tmp_path / "pairs.tsv"), Copy().vocabularies, config, Copy())
    assert found == [(letters.encode("ba"), letters.encode("ab"))]


def score(model: Any, pairs: list[Pair]) -> list[PairScore]:
    return score_pairs(decode(model, pairs), pairs)


def summary(scores: list[PairScore]) -> Evaluation:
    return PairLearner.evaluation(**pair_metrics(scores))


@pytest.mark.parametrize(
    ("output", "tokens"),
    [
        ([5, 6, 7], 1.0),
        ([5, 6, 8], 3 / 4),
        ([5, 6], 2 / 4),
        ([], 0 / 4),
        ([5, 6, 7, 7], 3 / 4),
        ([6, 5, 7, 7, 7, 7], 1 / 4),
    ],
)
def test_pair_metrics_of_one_output(output: list[int], tokens: float) -> None:
    # The longer second target leaves room for outputs that are too long.
    pairs = [([2], [5, 6, 7]), ([3], [4] * 9)]
    [found, _] = score(FixedAnswers({(2,): output, (3,): []}), pairs)
    result = summary([found])
    assert (result["sequence_accuracy"], result["token_accuracy"]) == (float(tokens == 1), tokens)


def test_pair_metrics_of_an_empty_target() -> None:
    result = summary(score(FixedAnswers({(2,): []}), [([2], [])]))
    assert (result["sequence_accuracy"], result["token_accuracy"]) == (1.0, 1.0)


class FixedAnswers:
    """Model that answers from a table, with as many steps for a token as the source is long."""

    def __init__(self, table: dict[tuple[int, ...], list[int]]) -> None:
        self.table = table
        self.batches: list[int] = []

    def generate(self, sources: list[list[int]], *, max_length: int, **options: Any) -> list[Any]:
        self.batches.append(len(sources))
        self.options = options
        return [
            SimpleNamespace(
                tokens=(tokens := self.table[tuple(source)][:max_length]),
                steps=[1] * (len(tokens) + 1),
                source_steps=[len(source)] * len(source),
            )
            for source in sources
        ]


PAIRS: list[Pair] = [([2, 3, 4], [7, 7]), ([2], [8]), ([3], [9, 9])]
TABLE = {(2, 3, 4): [7, 7], (2,): [8], (3,): [9, 8]}


def test_score_pairs_and_their_metrics() -> None:
    scores = score(FixedAnswers(TABLE), PAIRS)
    assert scores == [
        PairScore(3, 2, True, 3, 3, 9, 3),
        PairScore(1, 1, True, 2, 2, 1, 2),
        PairScore(1, 2, False, 2, 3, 1, 3),
    ]
    assert summary(scores) == PairLearner.evaluation(2 / 3, 7 / 8, (3 * 3 + 1 + 1) / 5, 1.0)


def test_decode_keeps_the_order_and_begins_with_the_shortest() -> None:
    model: Any = FixedAnswers(TABLE)
    found = decode(model, PAIRS, batch_size=2, beam_size=4)
    assert [result.tokens for result in found] == [[7, 7], [8], [9, 8]]
    assert (model.batches, model.options) == ([2, 1], {"beam_size": 4})


def test_decode_cuts_off_after_the_longest_target() -> None:
    [found] = score(FixedAnswers({(2,): [7, 7, 7, 7]}), [([2], [7, 7])])
    assert (found.correct, found.output_length) == (False, 4)


def test_evaluations_are_ranked_by_accuracy_of_sequences_and_then_of_tokens() -> None:
    first, second = (
        PairLearner.evaluation(0.5, 0.9, 2.0, 2.0),
        PairLearner.evaluation(0.6, 0.8, 2.0, 2.0),
    )
    assert first.rank < second.rank < PairLearner.evaluation(0.6, 0.9, 1.0, 1.0).rank
    assert second.rank == PairLearner.evaluation(0.6, 0.8, 9.0, 9.0).rank
    assert second.score == 0.6
    assert str(second) == (
        "sequence accuracy 60.00%, token accuracy 80.00%; "
        "mean steps 2.00 in the encoder, 2.00 in the decoder"
    )


def pair_score(length: int, correct: bool = True) -> PairScore:
    """A target of twice the source's length, 1 step for source tokens, 2 for output tokens."""
    size = 2 * length
    right = size + 1 if correct else 0
    return PairScore(length, size, correct, right, size + 1, length, 2 * (size + 1))


@pytest.mark.parametrize(
    ("longest", "width"), [(1, 1), (20, 1), (21, 2), (41, 5), (400, 20), (1016, 100)]
)
def test_by_length_covers_all_lengths_in_at_most_twenty_rows(longest: int, width: int) -> None:
    rows = by_length([pair_score(length) for length in range(1, longest + 1)], "source_length")
    assert len(rows) <= 20
    assert all(row["to"] - row["from"] + 1 == row["examples"] <= width for row in rows)
    assert [row["from"] for row in rows] == [1 + width * index for index in range(len(rows))]
    assert rows[-1]["to"] == longest


def test_by_length_has_the_metrics_of_each_range() -> None:
    scores = [pair_score(1), pair_score(1, correct=False), pair_score(3)]
    rows = by_length(scores, "source_length")
    assert [(row.pop("from"), row.pop("to"), row.pop("examples")) for row in rows] == [
        (1, 1, 2),
        (3, 3, 1),
    ]
    assert rows == [pair_metrics(scores[:2]), pair_metrics(scores[2:])]
    [row] = by_length([PairScore(1, 0, True, 1, 1, 1, 1)], "target_length")
    assert (row["from"], row["to"], row["examples"]) == (0, 0, 1)
