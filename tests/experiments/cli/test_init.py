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
from graphut.experiments.tasks import TASKS
from graphut.experiments.training import Run
from graphut.nn.rules.base import RULES
from graphut.topology.registry import registry
from tests.experiments.cli.tiny import TINY, describe_run


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
    command = [sys.executable, "-m", "graphut", "topology", "window:3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        assert process.wait(timeout=120) == 141
        assert process.stderr.read() == b""


HELP = ["--version", "--help", "train graphs --help", *(f"{name} --help" for name in COMMANDS)]
REFUSED = """
fly => argument COMMAND: invalid choice: 'fly'
trian => argument COMMAND: 'trian' is unknown; did you mean train? (see graphut --help)
--nonsense => the following arguments are required: COMMAND (see graphut --help)
info => the following arguments are required: FOLDER
info x zzz => unrecognized arguments: zzz (see graphut info --help)
info damaged => damaged/config.json is not a JSON file
bench => the following arguments are required: WHAT
bench fly => argument WHAT: invalid choice: 'fly'
bench gpu => the following arguments are required: --results
bench attention => give --nodes N, or --sentences N with --lengths LOW-HIGH
bench attention --sentences 3 => give --nodes N, or --sentences N
bench attention --nodes 3 --sentences 2 --lengths 3 => give --nodes N, or
bench attention --nodes 0 => nodes must be at least 1; got 0
bench attention --nodes 9 --topology windw:3 => unknown topology 'windw', did you mean window?
bench attention --nodes 9 --topology window => window takes 1 integer (radius), got 0
bench attention --nodes 9 --topology causal causal => topologies must be different values
bench attention --nodes 9 --backends foo => argument --backends: invalid choice: 'foo'
bench attention --nodes 9 --peers pad => argument --peers: 'pad' is unknown; did you mean padded?
bench attention --nodes 9 --dim 7 => 7 features do not divide into 8 heads
bench attention --nodes 9 --frontier 2 => frontier must be a share in (0, 1]; got 2.0
bench attention --sentences 2 --lengths x => '2xx' is not a shape such as 64x10-60
bench attention --sentences 2 --lengths 60-10 => 1 <= LOW <= HIGH, got '60-10'
bench layers --device cpu => unrecognized arguments: --device cpu
bench layers --node 9 => --node 9; did you mean --nodes? (see graphut bench layers --help)
bench layers --nodes many => argument --nodes: invalid int value: 'many'
bench layers --nodes 5 --seeds 6 => seeds must be at most the 5 nodes; got 6
bench layers --edges -1 => edges must be at least 0; got -1
bench layers --results missing/r.csv => cannot write missing/r.csv: make its folder, or name another
bench layers --results table.csv => table.csv is not a table of results
bench model --nonsense => unrecognized arguments: --nonsense (see graphut bench model --help)
bench model --shape 9 => '9' is not a shape such as 64x10-60
bench model --heads 3 => 128 features do not divide into 3 heads
bench model --topology star => star has nodes that are not tokens
bench waking missing => there is no folder missing
bench waking of-graphs => of-graphs has no model with the evaluation rule event_driven
train sort => the following arguments are required: --out
train sort --epoch 3 => the following arguments are required: --out
train --out => argument --out: expected one argument
train --out x srot => argument TASK: 'srot' is unknown; did you mean sort?
train --out x sort => name the task before the options: graphut train sort --out
train sort --out '' => --out must be a folder, new or existing; got ''
train sort --out file => --out must be a folder, new or existing; got 'file'
train sort --out x --epoch 3 => --epoch 3; did you mean --epochs? (see
train sort --out x --data y => unrecognized arguments: --data y
train sort --out x --epochs many => invalid int value: 'many'
train sort --out x --preset huge => the task sort has no preset 'huge'; it has: small
train sort --out x --rule ponder_net --preset fixed => --rule ponder_net has no effect: without
train sort --out x --rule ponder_net --no-adaptive => --rule ponder_net has no effect: without
train sort --out x --minutes 0 => --minutes must be positive, got 0.0
train sort --out begun --resume => began with task copy and cannot be resumed with sort
train copy --out begun => there is a run in begun: --resume it, or use another --out
train copy --out begun --resume --d-model 4 => began with d_model 128 and cannot be resumed with 4
train copy --out begun --resume --batch-size 9 => began with batch_size 64 and cannot be
train copy --out begun --resume --epoch-size 7 => began with epoch_size 9000
train copy --out missing --resume => there is no run in missing: it has no run.json
train copy --out damaged --resume => damaged/config.json is not a JSON file
train copy --out x --nonsense => unrecognized arguments: --nonsense
train copy --out x --accumulate 0 => --accumulate: must be a whole number, at least 1; got '0'
train copy --out x --epochs 0 => epochs must be at least 1; got 0
train copy --out x --epoch-size 0 => epoch_size must be at least 1; got 0
train copy --out x --num-heads 7 => num_heads must be a divisor of 64; got 7
train copy --out x --choose-by r2 => choose_by must be 'task' or 'last' for copy; got 'r2'
train copy --out x --curves missing/c.csv => cannot write missing/c.csv: make its folder
train copy --out x --device abacus => --device must be "cpu", "cuda" or, of several, "cuda:1"
train copy --out x --tensorboard => --tensorboard needs it: pip install tensorboard
train copy --out x --rule foo => rule cannot be 'foo': there is no halting rule 'foo'; choose one of
train copy --out x --rule act1 => rule cannot be 'act1': there is no halting rule 'act1', did you
train copy --out x --rule act:treshold=.5 => 'act' has no setting 'treshold'; its settings:
train copy --out x --rule global:act:threshold=abc => threshold of 'act' must be a number, got 'abc'
train copy --out x --rule act:threshold=7 => threshold must lie in (0, 1], got 7.0
train copy --out x --rule global => rule must be a rule other than global and event_driven
train copy --out x --no-adaptive --evaluation-rule act => evaluation_rule must be a rule without
train copy --out x --decoder-topology window:3|causal => must be causal: '(window:3|causal)&causal'
train copy --out x --encoder-topology star --transition sepconv => transition must be 'positionwise'
train copy --out x --encoder-topology causal|window:x => encoder_topology cannot be
train copy --out x --encoder-topology causal&windw:3 => unknown topology 'windw', did you mean
train graph-distance --out x --topology star => topology must be one without extra nodes
train graphs --out x --data missing => missing: name a .graphml file, a .json file
train multi30k --out x --data missing => get the data from https://github.com/multi30k/dataset
train pairs --out x => --data is missing: file of pairs
train pairs --out x --data missing => there is no
train pairs --out x --data x --preset x => pairs has no preset 'x'; it has none
train pairs --out x --data . --subwords 300 => pip install tokenizers
train multi30k --out x => --data is missing: folder of Multi30k's task 1, from https://
topology windw:3|causal => unknown topology 'windw', did you mean window? (import the module of
topology window:-1 => window: radius must not be negative, got -1
topology star&virtual:1 => 'star' and 'virtual:1' both have extra nodes
topology window:3 --out a.foo => cannot draw into a.foo: 'foo' is not supported
topology window:3 --nodes 9999 => n must be between 1 and 2048 tokens, got 9999
partition missing --parts 2 --out parts => there is no missing: name a .graphml file
partition of-graphs --parts 0 --out parts => argument --parts: must be a whole number, at least 1
predict of-graphs --data missing --out p.csv => there is no missing: name a .graphml file
predict of-graphs --data missing --out p.xlsx => --out must end with .csv, .json, .parquet
predict of-graphs --data missing --out p.parquet => p.parquet needs pandas and pyarrow: pip install
predict of-graphs --data missing --out missing/p.csv => cannot write missing/p.csv: make its folder
predict of-texts --data missing --out p.csv => sort is not a task on graphs: graphut generate
show of-graphs one --out a.png => name a graph by its number in the test set, from 1; got 'one'
show of-graphs 0 --out a.png => name a graph by its number in the test set, from 1; got '0'
show of-graphs 1 --out a.png --draw ponder => --draw is for texts; of a graph, the active nodes
show of-graphs 1 --out a.png --temperature 1 => --temperature is no option of the task
show of-texts a --out a.gif --draw all => a .gif shows one thing: --draw ponder, the active tokens
show of-texts a --out a.foo => 'foo' is not supported
show of-texts a --out a => '' is not supported
show of-texts a --out missing/a.gif => its folder does not exist
show of-texts a --out a.png --max-length 0 => max_length must be at least 1; got 0
plot missing --out a.png => there is no run in missing
plot of-texts --out a.foo => 'foo' is not supported
plot of-texts --out missing/a.png => cannot draw into missing/a.png: its folder does not exist
report missing --out a.html => there is no run in missing
report of-graphs --out a.pdf => --out must end with .html, .htm; got 'a.pdf'
report of-graphs --out missing/a.html => cannot write missing/a.html: make its folder
generate of-graphs a => graph-distance is a task on graphs: graphut predict FOLDER --data FILE
generate of-texts => give either texts, or a file of them with --input
generate of-texts a --input x => give either texts, or a file of them with --input
generate of-texts --input missing => there is no missing
generate of-texts a --skip-unknown => --skip-unknown skips lines of a file: name it with --input
generate of-texts a --beam-size 0 => beam_size must be at least 1; got 0
generate of-texts a --temperature -1 => temperature must be positive; omit it
generate of-texts a --top-p 2 => top_p must be in (0, 1]; got 2.0
generate of-texts a --seed 9223372036854775808 => seed must be at least 0 and below 2**63; got
generate lacking a => lacking/source_vocabulary.json: No such file or directory
eval missing => there is no run in missing
eval damaged => damaged/config.json is not a JSON file
eval of-texts --data missing => there is no missing
eval of-sums --set tset => no test set 'tset'; it has: test, up-to-400, exactly-400
eval of-texts --max-steps 0 => max_steps must be at least 1; got 0
eval of-texts --evaluation-rule act:weighting=foo => weighting must be one of 'sum', 'ema', 'last'
eval of-texts --evaluation-rule threshold:p=.5 => 'threshold' has no setting 'p'
eval of-texts --evaluation-rule event_driven => evaluation_rule must be a rule other than global
eval of-graphs --beam-size 3 => --beam-size is no option of the task graph-distance
eval of-texts --restarts 2 => --restarts is no option of the task
eval of-graphs --restarts 0 => restarts must be at least 1; got 0
eval of-graphs --restart-rounds 3 => restart_rounds must be 1 if restarts is 1; got 3
eval of-graphs --data missing => there is no missing: name a .graphml file
"""
"""Command lines that end before torch is imported, and a part of the error message of each."""


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
    (tmp_path / "file").touch()
    (tmp_path / "table.csv").write_text("a,a\n")
    refused = [line.split(" => ") for line in REFUSED.strip().splitlines()]
    code = f"""
import shlex, sys
from contextlib import redirect_stderr
from io import StringIO
from graphut.experiments.cli import main, run_options
assert [run_options.read_options("eval", [run]) for run in {[*tasks]}]  # they can be read
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
    assert not loaded, (line, loaded)
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

    assert main(["--import", own_module, "topology", "near_of_tests:2"]) == 0
    assert run("topology near_of_tests:2").startswith("near_of_tests:2 over 24 tokens")
    options = "--encoder-topology near_of_tests:1 --evaluation-rule sure_of_tests"
    run(f"train mirror-of-tests --out run {options} {shlex.join(TINY)} --epochs 1")
    assert "test, 4 sequences" in run("eval run --evaluation-rule sure_of_tests")
    assert "input" in run("generate run qdxa --max-length 3")
    run("show run qdxa --max-length 3 --out a.png")
    run("plot run --out b.png")
    run("report run --out c.html")
    again = f"--seed 0 --out RUN --import={own_module}\n"  # the command that repeats the run
    assert again in run("info run")
    assert all(f"{line} --import={own_module}" in Path("c.html").read_text()
               for line in ("--seed 0 --out RUN", "--out report.html"))  # fmt: skip
    run("bench attention --topology near_of_tests:1 --nodes 8 --dim 8 --heads 2 --repeats 1 "
        "--backends torch --peers --results d.csv")  # fmt: skip
    assert f"--import={own_module}" in Path("d.csv").read_text()
    assert Run.open("run").imports == (own_module,)


def test_main_names_the_option_of_a_forgotten_module(
    own_module: str, output: Command, refusal: Command
) -> None:
    options = "--encoder-topology near_of_tests:1 --evaluation-rule sure_of_tests"
    output("train", "sort", "--out", "run", *options.split(), *TINY, "--import", own_module)
    for table, lost in ((registry, "near_of_tests"), (RULES, "sure_of_tests")):
        kind = table.pop(lost)
        for command in (["eval", "run"], ["report", "run", "--out", "a.html"]):
            said = refusal(*command)
            assert lost in said and "--import MODULE" in said and "damaged" not in said
        table[lost] = kind
    output("train", "mirror-of-tests", "--out", "mirror", *TINY, "--import", own_module)
    TASKS.pop("mirror-of-tests")
    told = "graphut: mirror/run.json: unknown task 'mirror-of-tests': add --import"
    assert refusal("info", "mirror") == f"{told}={own_module}\n"
    state = read_checked_json("mirror/run.json")
    del state["imports"]  # as in older runs
    write_json("mirror/run.json", with_checksum(state))
    assert refusal("info", "mirror") == f"{told} and the module that defines it\n"


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
    assert message in refusal("info", "run", "--import", module)


def test_main_of_a_process_shows_warnings_as_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    monkeypatch.setattr(sys, "argv", ["graphut", "--version"])
    with pytest.raises(SystemExit):
        main()
    said = warnings.formatwarning("no checksum", UserWarning, "run.py", 7)
    assert said == "graphut: no checksum\n"
