"""`graphut halting compare` and `graphut halting sweep`."""

from __future__ import annotations

import sys
from argparse import Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import torch

from graphut._files import read_json, write_json
from graphut._version import __version__
from graphut.experiments.cli import eval as evaluation
from graphut.experiments.cli import train
from graphut.experiments.cli.options import Parser
from graphut.experiments.results.run_setup import option_words
from graphut.experiments.tables import markdown_table, mean_cells
from graphut.experiments.tasks import TASKS, GraphTask
from graphut.experiments.tasks.presets import HALTING_WAYS
from graphut.experiments.training import Run, is_run
from graphut.experiments.training.run_files import model_digest
from graphut.models.base import AdaptiveModel
from graphut.nn import FixedDepth, HaltingRule, Threshold, parse_rule

_COLUMNS = {
    "accuracy": "answers right",
    "graph_accuracy": "graphs right",
    "steps": "mean steps",
    "rank_correlation": "rank correlation",
    "work_ratio": "work",
}
_COMPARE = """\
Train a model for each way of halting on a task over graphs, evaluate it on all test sets, and
print a table. All options of graphut train may be added. Runs that are in the folder already go on
where they stopped. `graphut halting sweep` evaluates one trained model under several rules."""
_THRESHOLDS = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99]


def main(argv: Sequence[str]) -> int:
    """Compare models that halt in different ways, or one model under different rules."""
    if argv[:1] == ["sweep"]:
        return _sweep(_sweep_parser().parse_args(argv[1:]))
    return _compare(*_compare_parser().parse_known_args(argv))


def _compare(arguments: Namespace, others: Sequence[str]) -> int:
    """Train and evaluate a model for each way of halting, and print a table."""
    if not issubclass(TASKS[arguments.task], GraphTask):
        raise ValueError(f"{arguments.task} is no task over graphs, which are all that is compared")
    for word in others:
        if word.partition("=")[0] in ("--seed", "--preset"):
            raise ValueError(f"{word} is not passed on: --seeds and --ways are in its place")
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for way in dict.fromkeys(arguments.ways):  # named twice, it is still one run
        for seed in dict.fromkeys(arguments.seeds):
            folder = Path(arguments.out, f"{way}-seed{seed}")
            with redirect_stdout(sys.stderr):
                options = {**HALTING_WAYS[way][1], "seed": seed, "out": str(folder)}
                words = [*option_words(options), *others, *["--resume"] * is_run(folder)]
                if status := train.main([arguments.task, *words]):
                    return status
                halts = Run.open(folder).model().config.adaptive
                steps = ["--max-steps", str(arguments.test_max_steps)] if halts else []
                evaluation.main([str(folder), *steps])
            for path in sorted(folder.glob("evaluation-*.json")):
                record = read_json(path)
                found.setdefault((record["set"], way), []).append(record)
    rows = [[name, way, *mean_cells(found[name, way], *_COLUMNS)] for name, way in sorted(found)]
    print(markdown_table(["set", "halting", *_COLUMNS.values()], rows))
    return 0


def _sweep(arguments: Namespace) -> int:
    """Evaluate one model under each rule, keep what is found in its folder, and print a table."""
    run = Run.open(arguments.folder)
    if not issubclass(TASKS[run.task_name], GraphTask):
        raise ValueError(f"{run.task_name} is no task over graphs, which are all that is compared")
    digest = model_digest(run.folder)  # before the weights are read, as in `graphut eval`
    model = run.trained_model(torch.device("cpu"))
    settings = [*_settings(model, arguments)]
    for name, examples in evaluation.test_sets(run, arguments.set).items():
        found = []
        for rule, max_steps in settings:
            model.evaluation_rule, model.max_steps = rule, max_steps
            judged, details = run.learner.evaluate_in_detail(model, run.vocabularies, examples)
            flops = {key: value for key, value in details.items() if key.startswith("flops")}
            found.append({"rule": rule.spec(), "max_steps": max_steps, **judged.metrics, **flops})
        head = {"graphut": __version__, "set": name, "model": digest}
        write_json(run.folder / f"sweep-{name}.json", {**head, "rows": found})
        rows = [
            [name, own["rule"], str(own["max_steps"]), *mean_cells([own], *_COLUMNS)]
            for own in found
        ]
        print(markdown_table(["set", "rule", "steps at most", *_COLUMNS.values()], rows))
    return 0


def _settings(model: AdaptiveModel, arguments: Namespace) -> Iterator[tuple[HaltingRule, int]]:
    """Yield the rules of a sweep, each with the number of steps that a node may take."""
    own = model.evaluation_rule
    has_threshold = isinstance(own, Threshold)
    if arguments.thresholds and not has_threshold:
        raise ValueError(
            f"nodes of this run halt by {own.spec()!r}, which has no threshold for one step: leave "
            "out --thresholds"
        )
    thresholds = (arguments.thresholds or _THRESHOLDS) if has_threshold else []
    if not (thresholds or arguments.rules or arguments.depths):
        raise ValueError("there is nothing to evaluate: give --rules or --depths")
    for threshold in thresholds:
        yield Threshold(threshold, own.halt_from), arguments.max_steps
    for text in arguments.rules:
        yield parse_rule(text), arguments.max_steps
    for depth in arguments.depths:
        yield FixedDepth(halt_from=own.halt_from), depth


def _compare_parser() -> Parser:
    lines = [f"  {name:20}{meaning}" for name, (meaning, _) in HALTING_WAYS.items()]
    parser = Parser(
        prog="graphut halting",
        usage="graphut halting compare TASK --out FOLDER [options]\n"
        "       graphut halting sweep FOLDER [options]: see graphut halting sweep --help",
        description=_COMPARE,
        epilog="\n".join(["ways:", *lines]),
        formatter_class=RawDescriptionHelpFormatter,
    )
    option, ways = parser.add_argument, [*HALTING_WAYS]
    option("action", choices=["compare"], help="what to do")
    option("task", choices=TASKS, metavar="TASK", help="such as graph-distance")
    help = "to compare: see below (default: all)"
    option("--ways", nargs="+", choices=ways, default=ways, metavar="WAY", help=help)
    option("--out", required=True, metavar="FOLDER", help="where to keep the runs")
    help = "of the runs of each way (default: 0)"
    option("--seeds", type=int, nargs="+", default=[0], metavar="N", help=help)
    _add_max_steps(parser, "--test-max-steps")
    return parser


def _sweep_parser() -> Parser:
    parser = Parser(
        prog="graphut halting sweep",
        description="Evaluate one trained model as the threshold is moved at which its nodes halt, "
        "under other rules, and with the same number of steps for all nodes. What is found is "
        "printed, and kept in the folder too: sweep-NAME.json.",
    )
    option = parser.add_argument
    option("folder", metavar="FOLDER", help="the folder of a run")
    option("--set", metavar="NAME", help="one test set (default: all of the task)")
    help = (
        f"of the halting probability (default, where it has one: {' '.join(map(str, _THRESHOLDS))})"
    )
    option("--thresholds", type=float, nargs="+", metavar="X", help=help)
    help = "such as convergence:tol=0.05, or global:threshold:threshold=0.9,halt_from=output"
    option("--rules", nargs="+", default=[], metavar="RULE", help=help)
    help = "numbers of steps that all nodes take"
    option("--depths", type=int, nargs="+", default=[], metavar="N", help=help)
    _add_max_steps(parser, "--max-steps")
    return parser


def _add_max_steps(parser: Parser, name: str) -> None:
    help = "steps that a node may take in the evaluation, where nodes halt (default: 2000)"
    parser.add_argument(name, type=int, default=2000, metavar="N", help=help)
