from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import graphut
from graphut._files import read_checked_json, with_checksum, write_json
from graphut.experiments.cli import COMMANDS, main
from graphut.experiments.tasks import TASK_PRESETS, TASKS
from graphut.experiments.training import Run
from graphut.nn.rules.base import RULES
from graphut.topology.registry import registry
from tests.experiments.cli.tiny import TINY, describe_run


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "graphut: the following arguments are required: COMMAND (see graphut --help)"),
        (["fly"], "graphut: argument COMMAND: invalid choice: 'fly'"),
        (["info"], "graphut: the following arguments are required: FOLDER"),
        (["train", "sort"], "graphut: the following arguments are required: --out"),
        (["train", "sort", "--out", "x", "--epochs", "many"], "invalid int value: 'many'"),
        (["train", "--out", "x", "srot"], "argument TASK: 'srot' is unknown; did you mean sort?"),
        (["train", "sort", "--epoch", "3"], "arguments are required: --out"),
        (["train", "sort", "--out", "x", "--epoch", "3"], "--epoch 3; did you mean --epochs? (see"),
        (["train", "sort", "--out", "x", "--data", "y"], "unrecognized arguments: --data y"),
        (["bench", "layers", "--device", "cpu"], "unrecognized arguments: --device cpu"),
        (
            ["bench", "layers", "--node", "9"],
            "--node 9; did you mean --nodes? (see graphut bench layers --help)",
        ),
        (["info", "x", "zzz"], "unrecognized arguments: zzz (see graphut info --help)"),
        (["bench"], "the following arguments are required: WHAT"),
        (["bench", "fly"], "argument WHAT: invalid choice: 'fly'"),
        (
            ["bench", "layers", "--nodes", "many"],
            "argument --nodes: invalid int value: 'many'",
        ),
        (["train", "sort", "--out", "x", "--accumulate", "0"], "--accumulate: must be a whole"),
        (
            ["bench", "attention", "--backends", "foo"],
            "argument --backends: invalid choice: 'foo'",
        ),
        (["bench", "attention", "--peers", "pad"], "argument --peers: 'pad' is unknown; did you "),
        (["bench", "gpu"], "the following arguments are required: --results"),
    ],
)
def test_main_refuses_a_wrong_command_line_in_one_line(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2
    text = capsys.readouterr().err
    assert message in text and text.startswith("graphut: ") and text.count("\n") == 1


def test_main_by_python_dash_m() -> None:
    command = [sys.executable, "-m", "graphut", "info", "nowhere"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 2
    assert result.stderr == "graphut: there is no run in nowhere: it has no run.json\n"


@pytest.mark.parametrize(
    ("code", "given", "expected"),
    [
        ("from graphut.experiments.cli import main; main()", {}, "30000"),
        ("from graphut.experiments.cli import main; main()", {"GOMP_SPINCOUNT": "7"}, "7"),
        ("from graphut.experiments.cli import main; main()", {"OMP_WAIT_POLICY": "passive"}, None),
        ("from graphut.experiments.cli import main; main(['info', 'nowhere'])", {}, None),
    ],
)
def test_main_of_a_process_lets_threads_sleep(
    code: str, given: dict[str, str], expected: str | None
) -> None:
    environment = {**os.environ, "OMP_DISPLAY_ENV": "verbose"}
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        environment.pop(name, None)
    code += "; import os; print(os.environ.get('GOMP_SPINCOUNT'))"
    command = [sys.executable, "-c", code, "info", "nowhere"]
    result = subprocess.run(command, capture_output=True, text=True, env={**environment, **given})
    assert result.stdout == f"{expected}\n"
    # GNU's library, if torch has that one, says how often a thread looks before it sleeps.
    for spins in re.findall(r"GOMP_SPINCOUNT = '(\w+)'", result.stderr):
        assert expected in (None, spins)


def test_main_when_a_reader_goes_away() -> None:
    command = [sys.executable, "-m", "graphut", "topology", "show", "window:3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        assert process.wait(timeout=120) == 141
        assert process.stderr.read() == b""


QUICK = [
    "--version",
    "--help",
    "trian",
    "--nonsense",
    "bench model --nonsense",
    "train copy --out run --nonsense",
    "train --out",
    "train copy --out run --epochs 0",
    "train copy --out run --epoch-size 0",
    "train copy --out run --num-heads 7",
    "train copy --out begun",
    "train copy --out missing --resume",
    "train copy --out run --choose-by r2",
    "train copy --out begun --resume --d-model 4",
    "train copy --out damaged --resume",
    "train sort --out begun --resume",
    "train graphs --out run --data missing",
    "train circuit-simulate --out run --test-circuits adder-x",
    "train pairs --out run --data missing",
    "train listops --out run --data missing",
    "train pairs --out run --data . --subwords 300",
    "topology compare causal --task copy --nonsense",
    "topology compare windw:3 --task copy",
    "topology compare causal causal --task copy",
    "topology compare causal --task copy --seeds 0 -1",
    "topology compare window:1,2 --task copy",
    "topology show windw:3|causal",
    "topology show window:-1",
    "topology show star&virtual:1",
    "topology compare expander:3 --task copy",
    "topology show window:3 --out a.foo",
    "topology show window:3 --nodes 0",
    "topology show window:3 --nodes 9999",
    "bench attention --topology windw:3 --nodes 9",
    "bench attention --sentences 3",
    "bench attention --topology window --nodes 9",
    "bench attention --backends foo --nodes 9",
    "bench attention --nodes 9 --topology window:1 windw:3",
    "bench attention --nodes 9 --topology window:1 window:1",
    "bench attention --nodes 0",
    "bench attention --nodes 9 --dim 7",
    "bench layers --results missing/r.csv",
    "bench model --shape 9",
    "bench model --heads 3",
    "bench waking missing",
    "bench waking of-graphs",
    "bench attention --nodes 9 --frontier 2",
    "bench layers --edges -1",
    "bench model --topology star",
    "train copy --out run --rule foo",
    "train copy --out run --rule act:treshold=.5",
    "train copy --out run --rule global:act:threshold=abc",
    "train copy --out run --rule act:threshold=7",
    "eval of-texts --evaluation-rule act:weighting=foo",
    "train copy --out run --rule global",
    "train copy --out run --no-adaptive --evaluation-rule act",
    "train copy --out run --decoder-topology window:3|causal",
    "train copy --out run --decoder-topology dilated:2,2|random:4",
    "train copy --out run --encoder-topology star --transition sepconv",
    "train graph-distance --out run --topology star",
    "topology compare causal window:3 --task char-lm --data .",
    "topology compare causal --task copy --num-heads 7",
    "train copy --out run --encoder-topology window",
    "train copy --out run --encoder-topology causal|window:x",
    "train copy --out run --curves missing/c.csv",
    "train copy --out run --encoder-topology causal&windw:3",
    "train copy --out run --device abacus",
    "train copy --out run --log-to wandb",
    "train copy --out run --accumulate 0",
    "predict of-graphs --data missing --out p.csv",
    "predict of-graphs --data of-graphs --out p.xlsx",
    "predict of-graphs --data of-graphs --out p.parquet",
    "predict of-graphs --data of-graphs --out missing/p.csv",
    "predict of-texts --data of-graphs --out p.csv",
    "partition missing --parts 2 --out parts",
    "partition of-graphs --parts 0 --out parts",
    "show of-graphs one --out a.png",
    "show of-graphs 0 --out a.png",
    "show of-graphs 1 --out a.txt",
    "show of-graphs 1 --out a.png --draw ponder",
    "show of-texts a --out a.gif --draw ponder",
    "plot of-graphs --out missing/a.png",
    "report of-graphs --out a.pdf",
    "report of-graphs --out missing/a.html",
    "generate of-graphs a",
    "generate of-texts",
    "generate lacking a",
    "generate of-texts a --skip-unknown",
    "generate of-texts a --beam-size 0",
    "generate of-texts --input missing",
    "show of-texts a --out a.png --top-p 2",
    "eval of-texts --data missing",
    "eval of-texts --set tset",
    "eval of-sums --set tset",
    "eval of-texts --evaluation-rule quantile:p=.5",
    "eval of-texts --evaluation-rule event_driven",
    "eval of-texts --max-steps 0",
    "eval of-graphs --beam-size 3",
    "eval of-graphs --data missing",
    "share of-texts a//b",
    "eval damaged",
    "info damaged",
    "show of-graphs 1 --out a.png --temperature 1",
    *(f"{command} --help" for command in COMMANDS),
    "train graphs --help",
]
"""Command lines that end before torch is imported."""


def test_main_prints_help_and_refuses_mistakes_without_torch(tmp_path: Path) -> None:
    tasks = {
        "begun": "copy", "of-graphs": "graph-distance", "of-texts": "sort",
        "of-sums": "algorithmic-addition",
    }  # fmt: skip
    for folder, task in tasks.items():
        describe_run(tmp_path / folder, task)
    describe_run(tmp_path / "damaged", "copy")
    (tmp_path / "damaged" / "config.json").write_text("{")
    describe_run(tmp_path / "lacking", "copy")
    (tmp_path / "lacking" / "source_vocabulary.json").unlink()
    code = f"""
import sys
from graphut.experiments.cli import main, run_options
assert [run_options.read_options("eval", [run]) for run in {[*tasks]}]  # they can be read
for name in ("pandas", "tokenizers", "wandb"):
    sys.modules[name] = None  # as if it were missing
for line in {QUICK!r}:
    try:
        status = main(line.split())
    except SystemExit as ended:
        status = ended.code
    assert status == (0 if line.endswith(("--help", "--version")) else 2), line
    loaded = {{'torch', 'dgl'}} & {{*sys.modules}}
    assert not loaded, (line, loaded)
"""
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith(f"graphut {graphut.__version__}\nusage: graphut ")
    assert all(f"\n  {name} " in found.stdout for name in COMMANDS)


OWN = """
from dataclasses import dataclass
from graphut.experiments.tasks import Reverse, register_task
from graphut.nn import Threshold
from graphut.topology import Window


@register_task
@dataclass(frozen=True)
class Mirror(Reverse):
    "Reverse a sequence, as a task of one's own."
    name = "mirror-of-tests"


class Near(Window):
    name = "near_of_tests"


class Sure(Threshold):
    name = "sure_of_tests"
"""


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module in the current folder, with a task, a topology and a rule; later forgotten."""
    (tmp_path / "own_of_tests.py").write_text(OWN)
    (tmp_path / "broken_of_tests.py").write_text("1 / 0")
    (tmp_path / "unclosed_of_tests.py").write_text("f(")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    tables: list[Any] = [TASKS, TASK_PRESETS, registry, RULES]
    with ExitStack() as stack:
        for table in tables:
            stack.enter_context(patch.dict(table))
        yield "own_of_tests"
    sys.modules.pop("own_of_tests", None)


def test_main_imports_a_module_before_names_are_parsed(
    own_module: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(line: str) -> str:
        assert main([*shlex.split(line), "--import", own_module]) == 0, line
        return capsys.readouterr().out

    assert main(["--import", own_module, "topology", "show", "near_of_tests:2"]) == 0
    assert run("topology show near_of_tests:2").startswith("near_of_tests:2 over 24 tokens")
    options = "--encoder-topology near_of_tests:1 --evaluation-rule sure_of_tests"
    run(f"train mirror-of-tests --out run {options} {shlex.join(TINY)} --epochs 1")
    assert "test, 4 sequences" in run("eval run --evaluation-rule sure_of_tests")
    assert "input" in run("generate run qdxa --max-length 3")
    run("show run qdxa --max-length 3 --out a.png")
    run("plot run --out b.png")
    run("report run --out c.html")
    again = f"--seed 0 --out RUN --import={own_module}\n"  # the command that repeats the run
    assert again in run("info run")
    run("share run")
    assert again in Path("run/README.md").read_text()
    assert all(f"{line} --import={own_module}" in Path("c.html").read_text()
               for line in ("--seed 0 --out RUN", "--out report.html"))  # fmt: skip
    run("bench attention --topology near_of_tests:1 --nodes 8 --dim 8 --heads 2 --repeats 1 "
        "--backends torch --peers --results d.csv")  # fmt: skip
    assert f"--import={own_module}" in Path("d.csv").read_text()
    compared = "compare near_of_tests:1 complete --task mirror-of-tests --epochs 1"
    assert "near_of_tests:1" in run(f"topology {compared} {shlex.join(TINY[:-2])} --out both")
    assert Run.open("both/1-seed-0").imports == Run.open("run").imports == (own_module,)


@pytest.mark.parametrize("lost", ["near_of_tests", "sure_of_tests"])
def test_main_names_the_option_of_a_forgotten_module(
    lost: str, own_module: str, output: Callable[..., str], refusal: Callable[..., str]
) -> None:
    options = "--encoder-topology near_of_tests:1 --evaluation-rule sure_of_tests"
    output("train", "sort", "--out", "run", *options.split(), *TINY, "--import", own_module)
    (RULES if lost in RULES else registry).pop(lost)
    for command in (["eval", "run"], ["report", "run", "--out", "a.html"]):
        said = refusal(*command)
        assert lost in said and "--import MODULE" in said and "damaged" not in said


def test_main_names_the_option_of_a_forgotten_task(
    own_module: str, output: Callable[..., str], refusal: Callable[..., str]
) -> None:
    output("train", "mirror-of-tests", "--out", "run", *TINY, "--import", own_module)
    TASKS.pop("mirror-of-tests")
    told = "graphut: run/run.json: unknown task 'mirror-of-tests': add --import"
    assert refusal("info", "run") == f"{told}={own_module}\n"
    state = read_checked_json("run/run.json")
    del state["imports"]  # as in older runs
    write_json("run/run.json", with_checksum(state))
    assert refusal("info", "run") == f"{told} and the module that defines it\n"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            "info run --import nowhere_of_tests",
            "--import nowhere_of_tests: ModuleNotFoundError: No",
        ),
        (
            "info run --import broken_of_tests",
            "--import broken_of_tests: line 1 of broken_of_tests.py: Zero",
        ),
        (
            "info run --import a.py",
            "; a module is in the current folder, or installed, and is named",
        ),
        (
            "info run --import unclosed_of_tests",
            ": line 1 of unclosed_of_tests.py: SyntaxError: '(",
        ),
    ],
)
def test_main_names_a_module_that_cannot_be_imported(
    argv: str, message: str, own_module: str, refusal: Callable[..., str]
) -> None:
    assert message in refusal(*argv.split())


def test_main_of_a_process_shows_warnings_as_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    monkeypatch.setattr(sys, "argv", ["graphut", "--version"])
    with pytest.raises(SystemExit):
        main()
    assert warnings.formatwarning("no checksum", UserWarning, "run.py", 7) == (
        "graphut: no checksum\n"
    )
