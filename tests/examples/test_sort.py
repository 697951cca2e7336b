from pathlib import Path
from statistics import fmean

import pytest

import graphut
from graphut._files import read_json
from graphut.experiments.tasks import Sort
from graphut.experiments.training import Run, evaluate

FOLDER = Path(__file__).parents[2] / "examples" / "sort"


def test_letters_halt_by_themselves_and_later_after_a_larger_gap() -> None:
    """The gap is the distance in the alphabet to the letter before."""
    model, steps = graphut.load(FOLDER), {False: [], True: []}
    task = Sort(held_out=100)
    for target, answer in zip(
        [target for _, target in task.test],
        model.generate([source for source, _ in task.test], max_length=30),
        strict=True,
    ):
        assert max(answer.steps) < 6 and max(answer.source_steps) < 6  # the limit
        letters = zip(target, target[1:], answer.steps[1:], strict=False)
        for before, letter, taken in letters:
            steps[letter - before > 4].append(taken)
    assert fmean(steps[True]) > fmean(steps[False]) + 0.3


@pytest.mark.full
def test_it_is_as_good_as_its_card_says() -> None:
    run = Run.open(FOLDER)
    kept = read_json(FOLDER / "evaluation-test.json")
    found = evaluate(run.model(), run.task(), run.task().test)
    # Another processor rounds differently: an answer or two may turn.
    assert found["sequence_accuracy"] == pytest.approx(kept["sequence_accuracy"], abs=2e-3)
    assert f"| test | 1000 | {kept['sequence_accuracy']:g} |" in (FOLDER / "README.md").read_text()
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 250_000
