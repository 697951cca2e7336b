"""`graphut halting compare`."""

from __future__ import annotations

import sys
from argparse import RawDescriptionHelpFormatter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from graphut._files import read_json
from graphut.experiments.cli import eval as evaluation
from graphut.experiments.cli import train
from graphut.experiments.cli.options import Parser
from graphut.experiments.results.run_setup import option_words
from graphut.experiments.tables import markdown_table
from graphut.experiments.tasks import TASKS, GraphTask
from graphut.experiments.training import is_run

_WITHOUT_LOSS: dict[str, Any] = {"step_loss": "none", "halting_loss": 0.0, "evaluation_rule": ""}

WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "threshold": ("halt where the node is sure, as the preset of the task does", {}),
    "act": (
        "Adaptive Computation Time, 1603.08983",
        {**_WITHOUT_LOSS, "rule": "act", "halting_bias": -2.0, "ponder_weight": 0.005},
    ),
    "ponder_net": (
        "PonderNet, 2107.05407",
        {**_WITHOUT_LOSS, "rule": "ponder_net", "step_loss": "weighted", "ponder_weight": 1.0},
    ),
    "convergence": (
        "halt where the state hardly changes, 2502.05171",
        {"evaluation_rule": "convergence:tol=0.05", "halting_loss": 0.0},
    ),
    "global-threshold": (
        "the whole graph halts where its nodes are sure on average",
        {"evaluation_rule": "global:threshold:threshold=0.9,halt_from=output"},
    ),
    "global-convergence": (
        "the whole graph halts where its states hardly change on average",
        {"evaluation_rule": "global:convergence:tol=0.05", "halting_loss": 0.0},
    ),
    "fixed": ("all nodes take all steps", {"preset": "fixed"}),
}
"""Ways of halting: what they are, and the options of `graphut train` that choose them."""

_COLUMNS = {
    "accuracy": "answers right",
    "graph_accuracy": "graphs right",
    "steps": "mean steps",
    "rank_correlation": "rank correlation",
    "work_ratio": "work",
}


def main(argv: Sequence[str]) -> int:
    """Train and evaluate a model for each way of halting, and print a table."""
    arguments, others = _parser().parse_known_args(argv)
    if not issubclass(TASKS[arguments.task], GraphTask):
        raise ValueError(f"{arguments.task} is no task over graphs, which are all that is compared")
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for way in arguments.ways:
        for seed in arguments.seeds:
            folder = Path(arguments.out, f"{way}-seed{seed}")
            with redirect_stdout(sys.stderr):
                options = {**WAYS[way][1], "seed": seed, "out": str(folder)}
                words = [*option_words(options), *others, *["--resume"] * is_run(folder)]
                if status := train.main([arguments.task, *words]):
                    return status
                steps = [] if way == "fixed" else ["--max-steps", str(arguments.max_steps)]
                evaluation.main([str(folder), *steps])
            for path in sorted(folder.glob("evaluation-*.json")):
                record = read_json(path)
                found.setdefault((record["set"], way), []).append(record)
    rows = [[name, way, *map(_cell, _values(found[name, way]))] for name, way in sorted(found)]
    print(markdown_table(["set", "halting", *_COLUMNS.values()], rows))
    return 0


def _values(records: Sequence[Mapping[str, Any]]) -> Iterable[list[float]]:
    for name in _COLUMNS:
        yield [record[name] for record in records if record[name] is not None]


def _cell(values: Sequence[float]) -> str:
    """Return mean and deviation of the seeds.

    Examples
    --------
    >>> _cell([0.5, 1.0]), _cell([])
    ('0.750 ± 0.250', '')
    """
    return f"{fmean(values):.3f} ± {pstdev(values):.3f}" if values else ""


def _parser() -> Parser:
    lines = [f"  {name:20}{meaning}" for name, (meaning, _) in WAYS.items()]
    parser = Parser(
        prog="graphut halting",
        description="Train a model for each way of halting on a task over graphs, evaluate it on "
        "all test sets, and print a table. All options of graphut train may be added; runs that "
        "are in the folder already go on where they stopped.",
        epilog="\n".join(["ways:", *lines]),
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("action", choices=["compare"], help="what to do")
    parser.add_argument("task", choices=TASKS, metavar="TASK", help="such as graph-distance")
    help = "to compare: see below (default: all)"
    parser.add_argument(
        "--ways", nargs="+", choices=[*WAYS], default=[*WAYS], metavar="WAY", help=help
    )
    parser.add_argument("--out", required=True, metavar="FOLDER", help="where to keep the runs")
    help = "of the runs of each way (default: 0)"
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], metavar="N", help=help)
    parser.add_argument(
        "--max-steps",
        type=int,
        default=2000,
        metavar="N",
        help="steps that a node may take in the evaluation, where nodes halt (default: 2000)",
    )
    return parser
