"""`graphut topology compare`: train a model with each topology, and print a table of results."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, NamedTuple

from graphut._files import read_json
from graphut.experiments.cli import task_options
from graphut.experiments.cli.options import argument, build, command_parser, word
from graphut.experiments.messages import flag, is_share, percent, three_digits
from graphut.experiments.tasks import TASKS
from graphut.experiments.training import Run
from graphut.experiments.training.run_files import METRICS, read_metrics
from graphut.models.checked_config import CheckedConfig
from graphut.plotting.figure import check_picture_path, line_styles, new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LOWER_IS_BETTER = ("bits", "error", "mae")
_FOR_FILES = str.maketrans({"|": "+", "&": "^", ":": "=", "*": "x"})


@dataclass(frozen=True, kw_only=True)
class Compare(CheckedConfig):
    """Train a model with each topology and several seeds; print results, FLOPs and time.

    All other options are those of graphut train TASK. Runs that exist already are continued.
    """

    task: str = word("as for graphut train", "TASK")
    specs: tuple[str, ...] = word('topologies of the encoder or language model: "window:3"', "SPEC")
    out: str = argument(MISSING, "folder for the runs", "FOLDER")
    seeds: int = argument(3, "number of seeds for each topology", "N", least=1)
    plot: str | None = argument(None, "draw results and FLOPs: .png, .pdf or .svg", "FILE")

    def _check_values(self) -> None:
        if len({spec.replace(" ", "") for spec in self.specs}) < max(2, len(self.specs)):
            raise ValueError(f"give two different topologies or more; got {', '.join(self.specs)}")
        if self.plot is not None:
            check_picture_path(self.plot)


class Result(NamedTuple):
    """The result of a run on its test set."""

    metric: str
    score: float
    flops: float  # per example
    minutes: float  # of training


def read_options(command: str, argv: Sequence[str]) -> Namespace:
    """Parse the options; the field `runs` has the options of `graphut train` by topology."""
    parser = command_parser("graphut topology compare", Compare)
    parser.usage = "graphut topology compare TASK SPEC SPEC ... --out FOLDER [options]"
    options, rest = parser.parse_known_args(argv)
    compare = build(Compare, vars(options))
    if compare.task not in TASKS:
        task_options.read_options("train", [compare.task])  # ends with an error
    names = [each.name for each in fields(TASKS[compare.task].config_kind)]
    known = [flag(name) for name in ("encoder_topology", "topology") if name in names]
    if not known:
        raise ValueError(f"{compare.task} has graphs with edges of their own: name sort or char-lm")
    [topology] = known
    for each in rest:
        if each.partition("=")[0] in ("--seed", topology):
            raise ValueError(f"{each} has another value in each run: leave it out (see --seeds)")
    options.runs = {spec: [] for spec in compare.specs}
    for spec in compare.specs:
        for seed in range(compare.seeds):
            folder = Path(compare.out, f"{re.sub(' ', '', spec).translate(_FOR_FILES)}-{seed}")
            words = [compare.task, topology, spec, "--seed", str(seed), "--out", str(folder), *rest]
            words += ["--resume"] * (folder / METRICS).exists()
            options.runs[spec].append(task_options.read_options("train", words))
    vars(options).update(vars(compare))
    return options


def main(arguments: Namespace) -> int:
    """Train the models, print a table, say which topologies do not differ, and draw a plot."""
    from graphut.experiments.cli import train

    results, before = dict[str, list[Result]](), dict[str, Any]()
    for spec, runs in arguments.runs.items():
        for run in runs:
            print(f"{spec}, seed {run.seed}", file=sys.stderr, flush=True)
            with redirect_stdout(sys.stderr):
                train.main(run)
            own = Run.open(run.out).options | dict.fromkeys(
                ("seed", "encoder_topology", "topology")
            )
            if differing := [name for name, value in before.items() if value != own[name]]:
                raise ValueError(
                    f"{run.out} has another {differing[0]} than the runs before: give it again"
                )
            before = own
            results.setdefault(spec, []).append(_read(Path(run.out)))
    metric = next(iter(results.values()))[0].metric
    print("\n".join([*_table(results, metric), "", *verdict(results, metric)]))
    if arguments.plot is not None:
        save_figure(_draw(results, metric), arguments.plot)
    return 0


def _read(folder: Path) -> Result:
    """Read the result of a run; raise `ValueError` if it has not been evaluated."""
    if not (path := folder / "evaluation-test.json").exists():
        raise ValueError(f"the run in {folder} has not ended: give the same command again")
    row = read_json(path)
    meanings = Run.open(folder).learner_kind.metric_meanings
    metric = next(name for name in ("bits", *meanings) if row.get(name) is not None)
    seconds = read_metrics(folder / METRICS)[-1]["seconds"]
    return Result(metric, row[metric], row["flops_per_example"], seconds / 60)


def _table(results: Mapping[str, Sequence[Result]], metric: str) -> list[str]:
    """Return lines with mean and standard deviation over the seeds, FLOPs and training time."""
    form = percent if is_share(metric) else three_digits
    rows = [["topology", metric.replace("_", " "), "MFLOPs per example", "minutes"]]
    for spec, of_seeds in results.items():
        scores = [result.score for result in of_seeds]
        spread = f" \N{PLUS-MINUS SIGN} {form(stdev(scores))}" if len(scores) > 1 else ""
        flops, minutes = (fmean(column) for column in [*zip(*of_seeds, strict=True)][2:])
        costs = three_digits(flops / 1e6), three_digits(minutes)
        rows.append([spec, form(fmean(scores)) + spread, *costs])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def verdict(results: Mapping[str, Sequence[Result]], metric: str) -> list[str]:
    """Return lines that say from which topologies the best one differs in every seed."""
    sign = -1 if metric in _LOWER_IS_BETTER else 1
    scores = {spec: [sign * each.score for each in rows] for spec, rows in results.items()}
    best, *_ = ranked = sorted(scores, key=lambda spec: -fmean(scores[spec]))
    seeds = len(scores[best])
    if is_share(metric) and not any(map(any, scores.values())):
        return ["No model has learned anything yet: train longer, with more --epochs."]
    if seeds == 1:
        return ["One seed for each topology: a difference may be chance; give --seeds 3."]
    worse = [spec for spec in ranked[1:] if max(scores[spec]) < min(scores[best])]
    same = [spec for spec in ranked[1:] if spec not in worse]
    words = f"{best} is better than", f"{best} does not differ from"
    reasons = f"in all of {seeds} seeds", f"the ranges of their {seeds} seeds overlap"
    listed = zip(words, (worse, same), reasons, strict=True)
    return [f"{word} {', '.join(specs)}: {reason}." for word, specs, reason in listed if specs]


def _draw(results: Mapping[str, Sequence[Result]], metric: str) -> Figure:
    """Draw the result of each seed, and the mean, over the operations per example."""
    figure = new_figure(6, 4)
    axes = figure.add_subplot()
    scale = 100 if is_share(metric) else 1
    for (spec, of_seeds), (colour, marker, _) in zip(results.items(), line_styles(), strict=False):
        flops, scores = [r.flops for r in of_seeds], [scale * r.score for r in of_seeds]
        axes.plot(flops, scores, marker, color=colour, alpha=0.4)
        axes.plot(fmean(flops), fmean(scores), marker, color=colour, markersize=10, label=spec)
    note = ", %" if scale == 100 else ", the lower the better" * (metric in _LOWER_IS_BETTER)
    axes.set_ylim(bottom=0 if scale == 100 else None)
    axes.set(xlabel="floating-point operations per example", ylabel=metric.replace("_", " ") + note)
    figure.legend(loc="outside upper center", ncols=2, title="each seed, and their mean")
    return figure
