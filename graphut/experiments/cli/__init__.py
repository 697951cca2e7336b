"""The command line: `graphut train`, `eval`, `generate`, `info`, `report`, ..."""

import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module

from graphut._version import __version__
from graphut.experiments.cli.options import Parser, word_parser
from graphut.experiments.messages import import_module_of_user, import_words

COMMANDS = {
    "train": "train a model on a task, and save the run in a folder",
    "eval": "evaluate the model in a folder on its test sets",
    "predict": "write a model's predictions for your own graphs to a file",
    "generate": "answer texts with the model in a folder, and print its steps",
    "show": "draw the steps and the attention of a model for a text",
    "report": "write an HTML page about a run",
    "topology": "describe and draw a topology, or compare several in training",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line, by default the arguments of the process, and return its exit status.

    After bad input, print a message of one line and return 2.
    """
    if argv is None:
        # This process runs nothing else: print warnings in one line, as errors.
        warnings.formatwarning = lambda message, *_, **__: f"graphut: {message}\n"
        # Threads that spin for a long time slow down other programs: a training step took 12 times
        # as long beside them. Threads that sleep immediately wake up late.
        if "OMP_WAIT_POLICY" not in os.environ:
            os.environ.setdefault("GOMP_SPINCOUNT", "30000")
    arguments = list(sys.argv[1:] if argv is None else argv)
    namespace, arguments = Parser(prog="graphut", add_help=False).parse_known_args(arguments)
    modules: list[str] = getattr(namespace, "import", [])
    command = _parser().parse_args(arguments[:1]).command
    arguments = [*arguments[1:], *import_words(modules)]
    if command == "topology" and arguments[:1] == ["compare"]:
        command, arguments = "compare", arguments[1:]
    try:
        for module in modules:
            import_module_of_user(module)
        reads = {"train": "task_options", "compare": "compare"}.get(command, "run_options")
        reader = import_module(f"graphut.experiments.cli.{reads}")
        # --help and wrong options end here, before torch is imported, which takes a second.
        options = reader.read_options(command, arguments)
        if command != "train":  # it writes them into the run
            vars(options).pop("import", None)
        status: int = import_module(f"graphut.experiments.cli.{command}").main(options)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # The reader has closed the pipe: do not let Python report that again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # 128 + SIGPIPE, as in shells
    except KeyboardInterrupt:
        return 130
    except (ArithmeticError, ImportError, OSError, ValueError) as error:
        text = str(error)
        if isinstance(error, OSError) and error.strerror is not None:
            place = "" if error.filename is None else f"{error.filename}: "
            text = f"{place}{error.strerror}"  # only the file and the reason
    except (MemoryError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        if not isinstance(error, MemoryError) and "allocate" not in reason:
            raise
        text = f"out of memory: use a smaller batch, model or max_steps ({reason})"
    print(f"graphut: {text}", file=sys.stderr)
    return 2


def _parser() -> Parser:
    note = "graphut COMMAND --help lists the options; OMP_NUM_THREADS is the number of threads."
    description = "Universal Transformers on graphs."
    parser = word_parser("graphut", "command", COMMANDS, note, description=description)
    parser.add_argument("--version", action="version", version=f"graphut {__version__}")
    return parser
