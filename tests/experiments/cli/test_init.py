import os
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
from graphut.experiments.cli import COMMANDS, main
from graphut.experiments.tasks import TASKS
from graphut.experiments.training import Run
from graphut.nn.rules.base import RULES
from graphut.topology.registry import registry
from tests.experiments.cli.tiny import TINY, describe_run


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "30000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "passive"}, None)],
)
def test_main_of_a_process_lets_threads_sleep(given: dict[str, str], expected: str | None) -> None:
    names = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    code = "from graphut.experiments.cli import main; main()"
    code += "; import os; print(os.environ.get('GOMP_SPINCOUNT'))"
    command = [sys.executable, "-c", code, "report", "nowhere"]
    result = subprocess.run(command, capture_output=True, text=True, env={**environment, **given})
    assert result.stdout == f"{expected}\n"


def test_main_when_a_reader_goes_away() -> None:
    command = [sys.executable, "-m", "graphut", "topology", "window:3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        assert process.wait(timeout=120) == 141
        assert process.stderr.read() == b""


HELP = ["--version", "--help", "train graphs --help", *(f"{name} --help" for name in COMMANDS)]
REFUSED = """
fly => argument COMMAND: 'fly' is unknown; choose from train, eval
trian => argument COMMAND: 'trian' is unknown; did you mean train? (see graphut --help)
--nonsense => the following arguments are required: COMMAND (see graphut --help)
generate => the following arguments are required: FOLDER
generate damaged a => damaged/config.json is not a JSON file
train sort => --out is missing: folder of the run
train srot --out x => argument TASK: 'srot' is unknown; did you mean sort?
train --out x sort => the following arguments are required: TASK
train sort --epoch 3 => --epoch 3; did you mean --epochs? (see
train sort --out x --lr 1 => unrecognized arguments: --lr 1; did you mean --learning-rate?
train sort --out '' => --out must be a folder, new or existing; got ''
train sort --out x --data y => unrecognized arguments: --data y
train sort --out x --preset huge => the task sort has no preset 'huge'; it has: small
train sort --out begun --resume => began with task copy and cannot be resumed with sort
train copy --out begun => there is a run in begun: --resume it, or use another --out
train copy --out begun --resume --d-model 4 => began with d_model 128 and cannot be resumed with 4
train copy --out missing --resume => there is no run in missing: it has no run.json
train copy --out x --epoch-size 0 => epoch_size must be at least 1; got 0
train copy --out x --num-heads 7 => num_heads must be a divisor of 64; got 7
train copy --out x --results missing/c.csv => cannot write missing/c.csv: make its folder
train copy --out x --tensorboard => --tensorboard needs it: pip install tensorboard
train copy --out x --rule foo => rule cannot be 'foo': there is no halting rule 'foo'; choose one of
train graphs --out x --data missing => missing: name a .graphml file, a .json file
train multi30k --out x --data missing => get the data from https://github.com/multi30k/dataset
train pairs --out x => --data is missing: file of pairs
train pairs --out x --data . --subwords 300 => is a folder: name a text file in it
topology windw:3|causal => unknown topology 'windw': did you mean window?; import the module of
topology window:3 --out a.foo => cannot draw into a.foo: 'foo' is not supported
topology window:3 --nodes 9999 => n must be between 1 and 512 tokens, got 9999
topology compare sort complete --out x => give two different topologies or more; got complete
topology compare sort window:3 "window: 3" --out x => give two different topologies or more; got
topology compare sort complete windw:2 --out x => unknown topology 'windw': did you mean window?
topology compare srot complete causal --out x => argument TASK: 'srot' is unknown; did you mean
predict of-graphs --data missing --out p.xlsx => --out must end with .csv
predict of-texts --data missing --out p.csv => the model in of-texts is not for graphs
show of-texts a --out a.gif --draw ponder => --draw is for pictures of texts; graphs and .gif
train copy --out x --short-share 2 => short_share must be in [0, 1]; got 2.0
show of-graphs 1 --out a.png --draw ponder => --draw is for pictures of texts; graphs and .gif
show of-graphs 1 --out a.png --temperature 1 => --temperature is no option of the model in of-graphs
show of-texts a --out a.foo => 'foo' is not supported
report missing --out a.html => there is no run in missing
report of-graphs --out a.pdf => --out must end with .html; got 'a.pdf'
generate of-graphs a => the model in of-graphs is for graphs: graphut predict FOLDER --data FILE
generate of-texts => give either texts, or a file of them with --input
generate of-texts a --beam-size 0 => beam_size must be at least 1; got 0
eval missing => there is no run in missing
eval of-texts --max-steps 0 => max_steps must be at least 1; got 0
eval of-texts --evaluation-rule threshold:p=.5 => 'threshold' has no setting 'p'
eval of-graphs --beam-size 3 => --beam-size is no option of the model in of-graphs
"""
"""Command lines that are refused, and a part of the error message of each."""


def test_main_prints_help_without_torch_and_refuses_mistakes(tmp_path: Path) -> None:
    tasks = {"begun": "copy", "of-graphs": "graph-distance", "of-texts": "sort"}
    for folder, task in tasks.items():
        describe_run(tmp_path / folder, task)
    describe_run(tmp_path / "damaged", "copy")
    (tmp_path / "damaged" / "config.json").write_text("{")
    (tmp_path / "file").touch()
    (tmp_path / "table.csv").write_text("a,a\n")
    refused = [line.split(" => ") for line in REFUSED.strip().splitlines()]
    code = f"""
import shlex, sys
from contextlib import redirect_stderr
from io import StringIO
from graphut.experiments.cli import main, run_options
for name in ("pandas", "tokenizers", "tensorboard"):
    sys.modules[name] = None  # as if it were missing
for line, message in {[(line, "") for line in HELP] + refused!r}:
    with redirect_stderr(StringIO()) as errors:
        try:
            status = main(shlex.split(line))
        except SystemExit as ended:
            status = ended.code
    text = errors.getvalue()
    assert status == 2 * bool(message), line
    assert message in text and text.startswith("graphut: " * bool(message)), (line, text)
    loaded = {{'torch', 'dgl'}} & {{*sys.modules}}
    assert message or not loaded, (line, loaded)
assert [run_options.read_options("eval", [run]) for run in {[*tasks]}]  # they can be read
"""
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith(f"graphut {graphut.__version__}\nusage: graphut ")
    assert all(f"usage: graphut {name} " in found.stdout for name in COMMANDS)
    assert not (tmp_path / "x").exists()


Command = Callable[..., str]
OWN = """
from dataclasses import dataclass
from graphut.experiments.tasks import TASKS, Reverse
from graphut.nn import Threshold
from graphut.topology import Window


@dataclass(frozen=True)
class Mirror(Reverse):
    "Reverse a sequence, as a task of one's own."
    name = "mirror-of-tests"


TASKS["mirror-of-tests"] = Mirror


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
    tables: list[Any] = [TASKS, registry, RULES]
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

    assert run("topology near_of_tests:2").startswith("near_of_tests:2 over 24 tokens")
    options = "--encoder-topology near_of_tests:1 --evaluation-rule sure_of_tests"
    run(f"train mirror-of-tests --out run {options} {shlex.join(TINY)} --epochs 1")
    assert Run.open("run").imports == (own_module,)
    assert "test, 4 sequences" in run("eval run --evaluation-rule sure_of_tests")
    assert "input" in run("generate run qdxa --max-length 3")
    run("report run --out c.html")
    again = f"--seed 0 --out RUN --import={own_module}"  # the command that repeats the run
    assert again in Path("c.html").read_text()


def test_later_commands_import_the_module_of_a_run(
    own_module: str, output: Command, refusal: Command
) -> None:
    options = "--encoder-topology near_of_tests:1 --evaluation-rule sure_of_tests"
    output(
        "train", "mirror-of-tests", "--out", "run", *options.split(), *TINY, "--import", own_module
    )

    def forget() -> None:
        for table, name in ((registry, "near"), (RULES, "sure"), (TASKS, "mirror")):
            table.pop(next(each for each in table if each.startswith(name)))
        sys.modules.pop(own_module)

    for command in (
        ["eval", "run"],
        ["report", "run", "--out", "a.html"],
        ["generate", "run", "q"],
    ):
        forget()
        output(*command)
    forget()
    Path(f"{own_module}.py").unlink()
    assert f"--import {own_module}: ModuleNotFoundError" in refusal("eval", "run")


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("nowhere_of_tests", "--import nowhere_of_tests: ModuleNotFoundError: No"),
        ("broken_of_tests", "--import broken_of_tests: line 1 of broken_of_tests.py: Zero"),
        ("a.py", "; a module is in the current folder, or installed, and is named"),
        ("unclosed_of_tests", ": line 1 of unclosed_of_tests.py: SyntaxError: '("),
    ],
)
def test_main_names_a_module_that_cannot_be_imported(
    module: str, message: str, own_module: str, refusal: Command
) -> None:
    assert message in refusal("eval", "run", "--import", module)


def test_main_of_a_process_shows_warnings_as_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    monkeypatch.setattr(sys, "argv", ["graphut", "--version"])
    with pytest.raises(SystemExit):
        main()
    said = warnings.formatwarning("no checksum", UserWarning, "run.py", 7)
    assert said == "graphut: no checksum\n"
