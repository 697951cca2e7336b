from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copytree, which
from typing import Any

import pytest
import torch

from graphut.experiments.cli import main
from graphut.experiments.training import Run
from graphut.experiments.training.generation import attention_tables
from tests.experiments.cli.tiny import MODEL

EVIL = "<script>document.title='bad'</script>"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A browser without a window."""
    webdriver = pytest.importorskip("selenium.webdriver")
    binary, driver = which("chromium"), which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("there is no chromium with its chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for flag in (
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):  # fmt: skip
        options.add_argument(flag)
    with webdriver.Chrome(options, webdriver.ChromeService(driver)) as found:
        yield found


def test_report_writes_a_page(
    finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report.html"
    out.write_text("of an older model")
    assert main(["report", str(finished_run), "--out", str(out), "--device", "cpu"]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    page = out.read_text()
    assert page.startswith("<!doctype html>") and "Make it again" in page


def test_report_says_what_is_wrong_in_one_line(
    finished_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refusal: Callable[..., str],
) -> None:
    def said(folder: Path, out: str) -> str:
        return refusal("report", str(folder), "--out", str(tmp_path / out))

    assert "there is no run in" in said(tmp_path, "a.html")
    assert "end with .html" in said(finished_run, "a.png")
    assert "make its folder" in said(finished_run, "nowhere/a.html")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert 'pip install "graphut[plot]"' in said(finished_run, "a.html")
    assert not list(tmp_path.iterdir())
    folder = copytree(finished_run, tmp_path / "run")
    (folder / "evaluation-test.json").unlink()
    monkeypatch.undo()
    assert "has no evaluation: graphut eval" in said(folder, "a.html")


def label(names: list[str], index: int) -> str:
    """The name, with its number where it comes twice."""
    name = names[index]
    return name if names.count(name) == 1 else f"{name} ({index + 1})"


def test_report_in_a_browser(browser: Any, tmp_path: Path) -> None:
    by = pytest.importorskip("selenium.webdriver.common.by").By
    select = pytest.importorskip("selenium.webdriver.support.select").Select
    right = "\ue014"  # the key with an arrow
    data, folder = tmp_path / "pairs.tsv", tmp_path / "run"
    data.write_text("".join(f"{'a ' * n}{EVIL} b\t{EVIL}\n" for n in range(12)))
    assert main(["train", "pairs", "--data", str(data), "--out", str(folder), *MODEL]) == 0
    out = tmp_path / "report.html"
    assert main(["report", str(folder), "--out", str(out)]) == 0
    browser.get(out.as_uri())

    run = Run.open(folder)
    task, model = run.task(), run.model()
    view = browser.find_element(by.CSS_SELECTOR, ".attention")
    title = browser.find_element(by.TAG_NAME, "h3").text
    answer = run.learner.answer(model, task, task.test[int(title.rpartition(" ")[2]) - 1])
    tables = [*attention_tables(answer.parts)]

    def assert_weights(layer: int, step: int, head: int, reader: int) -> None:
        table = tables[layer]
        wanted = table.weights[step, head]
        rows = view.find_elements(by.CSS_SELECTOR, "tbody tr")
        found = [
            [
                float(cell.get_property("textContent") or 0)
                for cell in row.find_elements(by.TAG_NAME, "td")
            ]
            for row in rows
        ]
        torch.testing.assert_close(torch.tensor(found), wanted, atol=5.1e-4, rtol=0)
        said = view.find_element(by.TAG_NAME, "output").text
        assert said.startswith(
            f"Step {step + 1} of 2, head {head + 1}: {label(table.queries, reader)} "
        )
        largest = int(wanted[reader].argmax())
        if wanted[reader].sum():
            assert f" reads {label(table.keys, largest)} {wanted[reader].max():.3f}" in said
        else:
            assert "has halted" in said

    assert_weights(0, 0, 0, 0)
    view.find_element(by.CLASS_NAME, "head").send_keys(right)
    assert_weights(0, 0, 1, 0)
    view.find_element(by.CLASS_NAME, "step").send_keys(right)
    assert_weights(0, 1, 1, 0)
    select(view.find_element(by.CLASS_NAME, "reader")).select_by_index(1)
    assert_weights(0, 1, 1, 1)
    select(view.find_element(by.CLASS_NAME, "layer")).select_by_visible_text("decoder to encoder")
    assert_weights(2, 1, 1, 0)
    assert EVIL in view.text and EVIL in browser.find_element(by.TAG_NAME, "main").text
    assert browser.title != "bad"
    assert not browser.find_elements(by.CSS_SELECTOR, "main script")
    assert browser.get_log("browser") == []
    width = browser.execute_script("return document.documentElement.scrollWidth")
    assert width <= browser.execute_script("return window.innerWidth")
