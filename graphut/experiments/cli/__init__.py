"""The command line: `graphut train`, `eval`, `generate`, `info`, `bench`, ..."""

from __future__ import annotations

import os
import sys
import warnings
from argparse import RawDescriptionHelpFormatter
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from graphut._version import __version__
from graphut.experiments.cli.bench_options import read_bench_options
from graphut.experiments.cli.options import Parser

COMMANDS = {
    "train": "train a model on a task, into a folder",
    "eval": "evaluate the model in a folder on its test set",
    "generate": "answer sequences with the model in a folder, and show its steps",
    "show": "draw how the model in a folder thinks about a text",
    "plot": "draw how runs were trained",
    "report": "write all about a run into one page of HTML",
    "info": "say what is in a folder",
    "bench": "measure which backend is fastest here, and what halting saves",
    "share": "describe a run in its README.md, and upload it to the Hugging Face hub",
    "topology": "look at who attends to whom",
}

# The options of these commands are parsed without torch.
_READERS = {"bench": read_bench_options}

_THREADS = [
    "",
    "The environment: OMP_NUM_THREADS is the number of threads; GOMP_SPINCOUNT says how often one",
    "that waits looks again before it sleeps (default: 30000, unless OMP_WAIT_POLICY is given).",
]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line, that of the process if none is given, and return its exit status.

    It is 2 after bad input, with a message that says what is wrong.
    """
    if argv is None:  # the process runs nothing else: a warning is one line, as an error is
        warnings.formatwarning = lambda message, *_, **__: f"graphut: {message}\n"
        # Where other programs run too, threads that spin for long as they wait keep each other from
        # working: a training step took 12 times as long. Those that sleep at once wake up late.
        if "OMP_WAIT_POLICY" not in os.environ:
            os.environ.setdefault("GOMP_SPINCOUNT", "30000")
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = _parser().parse_args(arguments[:1]).command
    given: Any = arguments[1:]
    if command in _READERS:  # --help and wrong options end here, before torch is imported
        given = _READERS[command](given)
    try:
        import_module("graphut.experiments.tasks").load_task_plugins()
        status: int = import_module(f"graphut.experiments.cli.{command}").main(given)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # Whoever read the output has seen enough; Python would say so once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # 128 + SIGPIPE, as shells have it
    except (ArithmeticError, ImportError, OSError, ValueError) as error:
        print(f"graphut: {_text_of(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except (MemoryError, RuntimeError) as error:
        text = str(error).partition("\n")[0]
        if not isinstance(error, MemoryError) and "allocate" not in text:
            raise
        print(
            f"graphut: too little memory: try a smaller batch, model or cap of steps ({text})",
            file=sys.stderr,
        )
        return 2


def _text_of(error: Exception) -> str:
    """Return what an error says, without the number that the system has for it."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"


def _parser() -> Parser:
    lines = [f"  {name:10}{what}" for name, what in COMMANDS.items()]
    parser = Parser(
        prog="graphut",
        description="Universal Transformers on graphs.",
        epilog="\n".join(["commands:", *lines, "", "graphut COMMAND --help says more.", *_THREADS]),
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"graphut {__version__}")
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND", help="what to do")
    return parser
