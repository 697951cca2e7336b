import shlex
from pathlib import Path
from shutil import copytree

from graphut._files import read_checked_json, with_checksum, write_json
from graphut.experiments.records.card import run_card
from graphut.experiments.records.record import RunRecord
from graphut.experiments.training import Run


def test_run_card_shows_the_record(runs: dict[str, Path]) -> None:
    run = Run.open(runs["fixed"])
    record = RunRecord.of(run)
    card = run_card(run, "ann/sort", "mit")
    assert "\nlicense: mit\n" in card and 'graphut.load("ann/sort")' in card
    assert "the task `sort`. Sort a sequence of letters alphabetically." in card
    head, _, cells = (line.strip("| ").split(" | ") for line in card.splitlines() if "|" in line)
    found = dict(zip(head, cells, strict=True))
    evaluation = record.evaluations["test"]
    assert int(found["examples"]) == evaluation["examples"] == 4
    for metric in run.learner_kind.metric_meanings:
        assert float(found[metric]) == evaluation[metric]
        assert f"\n- {metric}: " in card
    assert f"epoch {record.best_epoch} of 2" in card and "4 updates" in card
    assert f"```sh\n{shlex.join(shlex.split(record.commands[0]))}\n```" in card
    [machine] = record.machines
    assert str(machine["cpu"]) in card and f"torch {machine['torch']}" in card
    assert "`adaptive=False`" in card and "DATA" not in card


def test_run_card_of_data_of_ones_own_names_no_folder(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    folder = copytree(runs["small"], tmp_path / "run")
    state = read_checked_json(folder / "run.json")
    data = tmp_path / "pairs.tsv"
    data.write_text("a\tb\n")
    state |= {"task": "pairs", "task_options": {"data": str(data)}}
    write_json(folder / "run.json", with_checksum(state))
    card = run_card(Run.open(folder), "ann/pairs")
    assert "--data DATA/pairs.tsv" in card and str(tmp_path) not in card
    assert "`DATA/` is the folder of your copy" in card
