"""Run the shell commands of a documentation page in this process, with small models and data."""

import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import networkx
import pytest
import torch

from graphut.experiments.cli import main
from tests.examples.tasks.test_text_tasks import FILES as PUBLISHED
from tests.examples.tasks.test_text_tasks import MODEL, SMALL
from tests.examples.test_examples import write_graphs

CONTRIBUTING = (Path(__file__).parents[1] / ".github" / "CONTRIBUTING.md").read_text()
BLOCKS = re.DOTALL | re.MULTILINE
FENCED = r"```(python|sh|\{code-cell\} python)\n(.*?)```"
IN_TEXT = r"`((?:graphut|python|torchrun) [^`]*(?: --[^`\s]+ [^`]+| runs/\w+))`"
CODE = re.compile(f"{FENCED}|{IN_TEXT}", re.DOTALL)
RECORD = """
record() { printf '%q ' "$PWD" "$@" >>"$COMMANDS"; echo >>"$COMMANDS"; }
graphut() { record graphut "$@"; }
python() { record python "$@"; }
torchrun() { record torchrun "$@"; }
"""
SMALL_TRAINING = {  # what else makes the training of a task short
    "sort": f"{SMALL} --mean-length 3 --length-deviation 1",
    "graph-distance": "--epoch-size 8 --pool 20 --test-sizes 20 --test-nodes 20",
    "graph-dijkstra": "--epoch-size 8 --pool 20 --test-sizes 20 --test-nodes 20",
    "char-lm": "--epoch-size 8",
    "examples/tasks/circuits.py": f"{SMALL} --test-circuits adder-2",
    "examples/tasks/lte.py:program": f"{SMALL} --length 2",
}
SMALL_CALLS = "--repeats 1 --dim 16 --shape 4x2-5"
SMALL_SCRIPTS = {
    "attention": SMALL_CALLS,
    "generation": "--repeats 1 --sentences 2 --beams 2 --dim 16",
    "gpu": "--repeats 1",
    "layers": "--repeats 1 --nodes 40 --edges 200 --seeds 5 --dim 16",
    "model": SMALL_CALLS,
    "node_classification": "--seconds 0.1 --splits 0 --seeds 1 --width 8",
    "parts": "--repeats 1 --nodes 60 --dim 4",
    "scaling": "--repeats 1 --nodes 20 --dim 8",
    "waking": "--repeats 1 --nodes 16 --families grid",
}
VERILOG = """module half (a, b, s, c);
  input a, b; output s, c;
  xor x1 (s, a, b); and a1 (c, a, b);
endmodule
"""


def run_block(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the commands of graphut and Python in a block; the shell itself runs all others."""
    log = Path("commands").absolute()
    log.write_text("")
    script = ["bash", "-euo", "pipefail", "-c", RECORD + block]
    subprocess.run(script, check=True, env=os.environ | {"COMMANDS": str(log)})
    for line in log.read_text().splitlines():
        folder, *words = shlex.split(line)
        with monkeypatch.context() as patched:
            patched.chdir(folder)
            run(words, patched)


def run(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a command with further options that make it fast; fail if it fails."""
    program, first, *options = words
    if program == "graphut":
        trains = first == "train" or options[0] == "compare"
        task = options[first == "topology"] if trains else ""
        small = f"{MODEL} {SMALL_TRAINING.get(task, '')}" if trains else ""
        assert main([*words[1:], *shlex.split(small)]) == 0, words
        return
    pytest.importorskip("torch_geometric.data")  # its first import warns
    [script] = [Path(word) for word in words if word.endswith(".py")]
    small = shlex.split(SMALL_SCRIPTS.get(script.stem, ""))
    if program == "torchrun":
        subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", *words[1:], *small], check=True
        )
        return
    monkeypatch.setattr(sys, "argv", [first, *options, *small])
    monkeypatch.syspath_prepend(script.resolve().parent)  # as `python` does
    if script.stem == "gpu" and not torch.cuda.is_available():
        with pytest.raises(SystemExit, match="there is no CUDA device"):
            runpy.run_path(first, run_name="__main__")
        return
    runpy.run_path(first, run_name="__main__")


def put_files(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the files that the commands of a page read, small, and modules with its classes."""
    pairs = "".join(f"{n} {n % 3}\t{n % 3}\n" for n in [*range(9)] * 5)
    for name in ("pairs.tsv", "sentences.tsv"):
        Path(name).write_text(pairs)
    Path("texts.txt").write_text("one\ntwo one\n")
    for name in ("book.txt", "input.txt"):
        Path(name).write_text("to be or not to be\n" * 199)
    Path("my_circuit.v").write_text(VERILOG)
    for name in ("graphs", "new_graphs"):
        Path(name).mkdir()
        graph = networkx.path_graph(20)
        nodes = {n: {"feat": f"{n % 2}, 1", "label": "ab"[n % 3 > 0]} for n in graph}
        networkx.set_node_attributes(graph, nodes)
        networkx.write_graphml(graph, f"{name}/line.graphml")
    shutil.copy("graphs/line.graphml", "club.graphml")
    for name, text in PUBLISHED.items():
        path = Path("tasks_1-20_v1-2", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for code in re.findall(
        r"^```[^\n]*python\n((?:(?!```).)*^class .*?)```", page + CONTRIBUTING, BLOCKS
    ):
        for name in re.findall(r'name(?:: ClassVar\[str\])? = "(\w+)"', code):
            Path(f"{name}.py").write_text(code.partition("\n\n\nprint(")[0])
    for folder, preset in (("RUN", "small"), ("runs/distance", "waking")):
        if folder in page:
            train = f"graphut train graph-distance --preset {preset} --out {folder}"
            run(train.split(), monkeypatch)
    write_graphs(Path(), size=64, num_feats=7)  # as a square board
    for name in ("minesweeper", "tolokers"):
        shutil.copy("a.npz", f"{name}.npz")
    for name in ("cora", "squirrel_filtered", "chameleon_filtered", "actor"):
        shutil.copy("b.npz", f"{name}.npz")
    for name in ("citeseer", "cora_ml"):
        shutil.copy("c.npz", f"{name}.npz")
