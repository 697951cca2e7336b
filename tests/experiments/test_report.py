import re
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from shutil import copytree

import pytest
import torch

from graphut._files import read_json, write_json
from graphut.experiments import report
from graphut.experiments.cli import main
from graphut.experiments.messages import percent, with_prefix
from graphut.experiments.report import RunRecord, run_report
from graphut.experiments.training import Run
from graphut.nn.attention import AttentionRecord
from graphut.plotting.figure import new_figure
from tests.experiments.html_page import Page

CPU = torch.device("cpu")
TINY = ["--d-model", "8", "--num-heads", "2", "--d-hidden", "8", "--epochs", "2", "--device", "cpu"]
TINY += ["--max-steps", "3"]


pytestmark = pytest.mark.usefixtures("tiny_presets")


@pytest.fixture(autouse=True)
def fast_pictures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw attention in one test only: a report has dozens of these pictures."""
    if "script" not in request.node.name:
        monkeypatch.setattr(report, "draw_attention", lambda *args: new_figure(1, 1))


@cache
def report_of(folder: Path) -> tuple[str, Page]:
    html = run_report(Run.open(folder), CPU)
    page = Page(html)
    assert len(html.encode()) < 5_000_000
    assert all(link.startswith("data:image/png;base64,") for link in page.links)
    assert all(picture["alt"] and picture["width"] for picture in page.pictures)
    levels = [level for level, _ in page.headings]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    return html, page


def cell(name: str, value: float) -> str:
    """The text of a value in a table: accuracies are percentages."""
    return percent(value) if name.endswith("accuracy") else f"{value:.4g}"


def test_run_report_has_the_numbers_of_the_record(runs: dict[str, Path]) -> None:
    folder = runs["small"]
    record, page = RunRecord.of(Run.open(folder)), report_of(folder)[1]
    head, *rows = page.tables["Metrics"]
    found = dict(zip(head, *rows, strict=True))
    evaluation = record.evaluations["test"]
    assert found["test set"] == "test" and int(found["sequences"]) == evaluation["examples"] == 4
    for metric, meaning in Run.open(folder).learner_kind.metric_meanings.items():
        assert found[metric.replace("_", " ")] == cell(metric, evaluation[metric])
        assert meaning in page.text
    for side in ("source_length", "target_length"):
        _, *rows = page.tables[f"test, by {side.replace('_', ' ')}"]
        expected = [[cell(*each) for each in row.items()] for row in evaluation[f"by_{side}"]]
        assert rows == expected
    share = evaluation["flops_share"]
    assert page.tables["Operations"][1] == [
        "test", with_prefix(evaluation["flops_per_example"]), percent(share),
    ]  # fmt: skip
    [machine] = record.machines
    for what, value in page.tables["Machines and versions"][1:]:
        assert value == ("-" if machine[what] is None else str(machine[what]))
    assert f"{record.weights:,} weights" in page.text
    assert f"epoch {record.progress.best_epoch} of 2" in page.text and "4 updates" in page.text
    assert all(command in page.text for command in record.commands)
    assert "graphut report RUN --out report.html" in page.text


def test_run_report_says_where_the_depth_goes(runs: dict[str, Path]) -> None:
    html, page = report_of(runs["small"])
    run = Run.open(runs["small"])
    answers = run.learner(run.model()).answers(run.task().test)
    for number, name in enumerate(("encoder", "decoder")):
        steps = [answer.parts[number].steps for answer in answers]
        every = [n for own in steps for n in own]
        for step, share in page.tables[f"{name}: steps of nodes"][1:]:
            assert share == percent(every.count(int(step)) / len(every))
        rows = page.tables[f"{name}: steps by position"][1:]
        for position, mean in rows:
            here = [own[int(position) - 1] for own in steps if len(own) >= int(position)]
            assert float(mean) == pytest.approx(sum(here) / len(here), rel=1e-3)
        assert len(rows) == max(map(len, steps))
    # The more steps a token takes, the darker it is.
    shades = re.findall(r"114, 178, (\d\.\d+)\)\" title=\"(\d+) steps\">\w+<sub>(\d+)\+?<", html)
    assert shades and all(steps == shown for _, steps, shown in shades)
    assert all(
        float(shade) == pytest.approx(0.3 * int(steps), abs=0.31) for shade, steps, _ in shades
    )


def test_run_report_shows_the_options_that_differ(runs: dict[str, Path]) -> None:
    page = report_of(runs["fixed"])[1]
    assert page.tables["Options"] == [["option", "value"], ["max_steps", "1"]]
    assert "The preset fixed, except" in page.text
    small = report_of(runs["small"])[1]
    assert "Options" not in small.tables and "The preset small;\nrun.json and" in small.text


def test_run_report_shows_a_script_in_the_data_as_text(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    data = tmp_path / "pairs.tsv"
    data.write_text("".join(f"{'a ' * n}{evil} b\t{evil} {'a ' * n}\n" for n in range(12)))
    folder = tmp_path / "run"
    assert main(["train", "pairs", "--data", str(data), "--out", str(folder), *TINY]) == 0
    html, page = report_of(folder)
    assert "<script" not in html and evil in page.text
    drawn = [picture for picture in page.pictures if "is a step" in str(picture["alt"])]
    assert len(drawn) == 3 * sum(level == 3 for level, _ in page.headings) > 0
    assert "--data DATA/pairs.tsv" in page.text and "is the folder of your copy" in page.text
    assert str(tmp_path) not in html


@pytest.mark.parametrize("layer", ["attention", "gin"])
def test_run_report_of_graphs(layer: str, tmp_path: Path) -> None:
    argv = ["--epoch-size", "16", "--held-out", "12", "--sizes", "2-9", "--test-sizes", "12"]
    argv += ["--test-nodes", "24", "--batch-size", "8", "--layer", layer]
    argv += ["--out", str(tmp_path / "run")]
    assert main(["train", "graph-distance", *argv, *TINY]) == 0
    assert main(["eval", str(tmp_path / "run"), "--max-steps", "5"]) == 0
    html, page = report_of(tmp_path / "run")
    assert [row[0] for row in page.tables["Metrics"][1:]] == [
        "near-12 --max-steps 5", "test", "test --max-steps 5",
    ]  # fmt: skip
    by_depth = read_json(tmp_path / "run" / "evaluation-test.json")["by_depth"]
    assert len(page.tables["test, by depth"]) == 1 + len(by_depth)
    drawn = [p for p in page.pictures if str(p["alt"]).startswith("The graph, and its active")]
    examples = [text for level, text in page.headings if level == 3]
    assert len(drawn) == len(examples) > 2
    assert ("mean over the heads" in html) == (layer == "attention")
    assert "encoder: steps by position" not in page.tables
    assert "without a wrong answer" in page.text
    assert "Spearman" not in page.text  # all nodes take all steps: there is no correlation


def test_run_report_of_a_large_graph_has_no_lists_and_no_attention(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: Callable[..., str]
) -> None:
    argv = ["--epoch-size", "8", "--held-out", "4", "--sizes", "41", "--test-nodes", "24"]
    argv += ["--test-sizes", "12"]
    printed = output("train", "graph-distance", *argv, "--out", tmp_path / "run", *TINY)
    summary = "steps of 41 nodes: "
    assert printed.count(summary) == 3 and "node " not in printed.replace(summary, "")
    monkeypatch.delattr(AttentionRecord, "dense")  # of N x N weights
    html, page = report_of(tmp_path / "run")
    assert summary in page.text and "encoder</b>" not in html
    assert "Attention among more than 40 tokens or nodes is not drawn." in page.text
    assert re.search(r"updates and [\d.]+ seconds\.", page.text)


def test_run_report_of_a_language_model(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("to be, or not to be. " * 100)
    argv = ["--data", str(tmp_path / "text.txt"), "--window", "16", "--epoch-size", "8"]
    assert main(["train", "char-lm", *argv, "--out", str(tmp_path / "run"), *TINY]) == 0
    _, page = report_of(tmp_path / "run")
    assert "each from its start" in page.text and "tokens predicted correctly" in page.text
    assert " wrongly. The shortest" not in page.text


def test_run_report_of_a_run_that_is_not_finished(runs: dict[str, Path], tmp_path: Path) -> None:
    folder = copytree(runs["small"], tmp_path / "run")
    state = read_json(folder / "run.json")
    state["training"]["epochs"] = 9
    write_json(folder / "run.json", state)
    text = " ".join(report_of(folder)[1].text.split())
    assert "was stopped before its end, 9 epochs" in text and "--epochs 9 " in text
