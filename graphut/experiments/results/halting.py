"""Problems over graphs: ways of halting, one model under several rules, and a chart of both."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from graphut.experiments.results.line_chart import Chart, Panel, Series
from graphut.experiments.results.run_record import RunRecord, best_run
from graphut.experiments.results.run_setup import Setup
from graphut.experiments.results.run_table import variant_name
from graphut.experiments.tables import code, markdown_table, mean_cells, share, three_digits
from graphut.experiments.tasks import preset_of
from graphut.experiments.tasks.presets import HALTING_WAYS, SMALL, UNTIED

_TASK = "graph-distance"
_SMALL, _MIDDLE, _LARGE = "test", "near-100", "near-1000"  # its test sets
_DRAWN = ("threshold", "fixed", "gat", "gin")
_JUDGED = ("accuracy", "graph_accuracy", "steps", "rank_correlation", "work_ratio")
_OTHERS = {
    "prefix-parity": [_SMALL, "path-100", "path-1000"],
    "graph-bfs": [
        _SMALL,
        "erdos-renyi-160",
        "erdos-renyi-1600",
        "watts-strogatz-1600",
        "delaunay-1600",
    ],
    "listops-tree": [_SMALL, "official-d20s", "official-d20a"],
    "sudoku": [_SMALL, "minimal"],
    "graph-reach": [_SMALL, _MIDDLE, _LARGE],
    "graph-path": [_SMALL, _MIDDLE, _LARGE],
    "graphs": [_SMALL],
}
"""Test sets of other problems: one like the training set, and harder ones."""
_GIVENS = 4  # in a row of the table of puzzles


def runs_by_way(runs: Sequence[RunRecord]) -> dict[str, list[RunRecord]]:
    """Return the runs of distances in trees by the way to halt, whatever the number of epochs."""
    found = {}
    own = [
        record
        for record in runs
        if record.task == _TASK and {_SMALL, _MIDDLE, _LARGE} <= record.evaluations.keys()
    ]
    for name, (_, options) in HALTING_WAYS.items():
        values = {**preset_of(_TASK, options.get("preset")), **options, "seed": 0}
        values.pop("preset", None)
        wanted = Setup.of(_TASK, values)
        found[name] = [record for record in own if _choice(record.setup) == _choice(wanted)]
    return found


def _choice(setup: Setup) -> tuple[str | None, dict[str, Any]]:
    return setup.preset, {k: v for k, v in setup.options.items() if k != "epochs"}


def other_runs(runs: Sequence[RunRecord], preset: str = SMALL) -> list[RunRecord]:
    """Return the runs of the other problems: those that halt, or layers of DGL's GATConv."""
    return [
        record
        for task in _OTHERS
        for record in runs
        if record.task == task and record.setup.preset == preset
        if preset == SMALL or record.setup.options.get("layer") == "gat"
    ]


def family_runs(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """Return the runs of distances in trees that are tested on families of their choice."""
    return [
        record
        for record in runs
        if record.task == _TASK and "test_families" in record.setup.options
    ]


def ways_table(runs: Sequence[RunRecord]) -> str:
    """Return the table of ways to halt: mean and deviation over seeds."""
    head = ["way", "what it is", "4-24 nodes", "100 nodes", "1000 nodes", "steps"]
    head += ["rank correlation", "work / needed", "weights", "updates", "minutes"]
    head += ["seeds", "command"]
    found = runs_by_way(runs)
    rows = [
        [name, meaning, *_way_cells(name, found[name])]
        for name, (meaning, _) in HALTING_WAYS.items()
    ]
    return markdown_table(head, rows)


def distances_table(runs: Sequence[RunRecord]) -> str:
    """Return the table of right answers by distance, in trees larger than those of training."""
    judged = {
        name: [row for record in records for row in record.evaluations[_MIDDLE]["by_depth"]]
        for name, records in runs_by_way(runs).items()
        if records
    }
    ranges = sorted({(row["from"], row["to"]) for own in judged.values() for row in own})
    rows = [[name, *(_at(own, low) for low, _ in ranges)] for name, own in judged.items()]
    return markdown_table(["way", *(f"{low} to {high}" for low, high in ranges)], rows)


def sweep_table(runs: Sequence[RunRecord]) -> str:
    """Return the table of one model under several rules, in the largest trees."""
    head = ["rule in the test", "steps at most", "nodes right", "steps", "work / needed"]
    rows = [
        [
            code(row["rule"]),
            str(row["max_steps"]),
            *mean_cells([row], "accuracy", "steps", "work_ratio"),
        ]
        for row in _sweep(runs)
    ]
    return markdown_table(head, rows)


def problems_table(runs: Sequence[RunRecord]) -> str:
    """Return the table of the other problems: a depth for each node, one for all, a baseline."""
    head = ["task", "run", "test set", "graphs", "answers right", "graphs right", "steps"]
    head += [
        "rank correlation",
        "work / needed",
        "best depth for all",
        "right at that depth",
        "work at that depth",
    ]
    head += ["right with GATConv", "updates", "minutes", "seed", "command"]
    rows = [
        [
            record.task, variant_name((None, tuple(record.setup.options.items()))), name,
            str(found["examples"]), *mean_cells([found], *_JUDGED),
            *_best_depth(record.sweeps.get(name, [])), _baseline(runs, record.task, name),
            f"{record.updates:,}", three_digits(record.seconds / 60), str(record.setup.seed),
            code(*record.commands),
        ]
        for record in other_runs(runs)
        for name in _OTHERS[record.task]
        if (found := record.evaluations.get(name)) is not None
    ]  # fmt: skip
    return markdown_table(head, rows)


def families_table(runs: Sequence[RunRecord]) -> str:
    """Return the table of families of trees, those left out of training too: means of seeds."""
    head = ["trained on", "test set", "graphs", "nodes right", "graphs right", "steps"]
    head += ["rank correlation", "work / needed", "seeds", "command"]
    found: dict[tuple[str, str], list[RunRecord]] = {}
    for record in sorted(family_runs(runs), key=lambda record: record.setup.seed):
        for name in record.evaluations:
            if name != _SMALL:
                found.setdefault((record.options["families"], name), []).append(record)
    rows = [
        [
            families, name, str(own[0].evaluations[name]["examples"]),
            *mean_cells([record.evaluations[name] for record in own], *_JUDGED),
            ", ".join(str(record.setup.seed) for record in own), code(*own[0].commands),
        ]
        for (families, name), own in found.items()
    ]  # fmt: skip
    return markdown_table(head, rows)


def givens_table(runs: Sequence[RunRecord]) -> str:
    """Return the table of Sudoku's cells, right ones and their steps, by the givens of a puzzle."""
    own = [r for r in other_runs(runs) if r.task == "sudoku" and _SMALL in r.evaluations]
    groups: dict[int, list[Mapping[str, Any]]] = {}
    for row in best_run(own).evaluations[_SMALL]["by_group"] if own else ():
        groups.setdefault(int(row["group"].split()[0]) // _GIVENS * _GIVENS, []).append(row)
    rows = []
    for low, found in sorted(groups.items()):
        cells = sum(row["nodes"] for row in found)
        right, steps = (
            sum(row["nodes"] * row[name] for row in found) / cells for name in ("accuracy", "steps")
        )
        puzzles = str(cells // 81)
        rows.append([f"{low} to {low + _GIVENS - 1}", puzzles, share(right), three_digits(steps)])
    return markdown_table(["givens", "puzzles", "cells right", "steps of a cell"], rows)


def halting_chart(runs: Sequence[RunRecord]) -> Chart:
    """Return a chart of steps and of right answers by distance, and of right answers by work."""
    found = runs_by_way(runs)
    steps = {
        "each node halts when it is sure": ("threshold", _LARGE),
        "the same, trained without noise": ("no-noise", _LARGE),
        "Adaptive Computation Time": ("act", _LARGE),
        "PonderNet": ("ponder_net", _LARGE),
    }
    right = {f"{name}: {HALTING_WAYS[name][0]}": (name, _MIDDLE) for name in _DRAWN}
    by_rule: dict[str, list[tuple[float, float]]] = {}
    for row in _sweep(runs):
        kind = row["rule"].partition(":")[0]
        label = {"threshold": "a threshold for each node", "fixed": "a depth for all"}.get(kind)
        if label is not None:
            by_rule.setdefault(label, []).append((row["work_ratio"], row["accuracy"]))
    away = "edges to the marked node"
    panels = [
        Panel("1000 nodes", away, "mean steps", _series(found, steps, "steps")),
        Panel("100 nodes", away, "nodes right", _series(found, right, "accuracy")),
        Panel("1000 nodes, one model", "work, by what is needed", "nodes right",
              [Series(label, sorted(points)) for label, points in by_rule.items()]),
    ]  # fmt: skip
    title = "Steps that a node takes by its distance, and what the answers cost"
    return Chart(title, [panel for panel in panels if panel.series])


def _sweep(runs: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """Return the rows of the best run that was swept on the largest trees."""
    swept = [record for record in runs_by_way(runs)["threshold"] if _LARGE in record.sweeps]
    return best_run(swept).sweeps[_LARGE] if swept else []


def _series(
    found: Mapping[str, Sequence[RunRecord]], wanted: Mapping[str, tuple[str, str]], value: str
) -> list[Series]:
    """Return a value by distance, for the best run of each way."""
    return [
        Series(label, [(row["depth"], row[value]) for row in rows])
        for label, (name, test_set) in wanted.items()
        if found[name] and (rows := best_run(found[name]).evaluations[test_set]["by_depth"])
    ]


def _way_cells(name: str, records: Sequence[RunRecord]) -> list[str]:
    seeds = [str(seed) for seed in sorted(record.setup.seed for record in records)]
    words = ["graphut", "halting", "compare", _TASK, "--ways", name, "--seeds", *(seeds or "0")]
    epochs = {r.setup.options["epochs"] for r in records if "epochs" in r.setup.options}
    words += [word for count in epochs for word in ("--epochs", str(count))]
    command = code(shlex.join([*words, "--out", "RUNS"]))
    if not records:
        return ["not measured yet", *[""] * 9, command]
    by_set = [[r.evaluations[s] for r in records] for s in (_SMALL, _MIDDLE, _LARGE)]
    accuracies = [cell for own in by_set for cell in mean_cells(own, "accuracy")]
    minutes = three_digits(fmean(record.seconds for record in records) / 60)
    return [
        *accuracies, *mean_cells(by_set[-1], "steps", "rank_correlation", "work_ratio"),
        f"{records[0].weights:,}", f"{records[0].updates:,}", minutes, ", ".join(seeds), command,
    ]  # fmt: skip


def _at(rows: Sequence[Mapping[str, Any]], low: int) -> str:
    """Return right answers, and steps, at distances from `low` on: means over seeds."""
    right, steps = (
        [row[name] for row in rows if row["from"] == low] for name in ("accuracy", "steps")
    )
    return f"{share(fmean(right))} at {three_digits(fmean(steps))}" if right else ""


def _best_depth(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the smallest of the depths for all nodes that are the most accurate."""
    fixed = [row for row in rows if row["rule"].startswith("fixed")]
    if not fixed:
        return ["", "", ""]
    best = max(fixed, key=lambda row: (row["accuracy"], -row["max_steps"]))
    return [str(best["max_steps"]), *mean_cells([best], "accuracy", "work_ratio")]


def _baseline(runs: Sequence[RunRecord], task: str, test_set: str) -> str:
    """Return the answers that layers of DGL's GATConv have right, and after how many updates."""
    own = [
        record
        for record in other_runs(runs, UNTIED)
        if record.task == task and test_set in record.evaluations
    ]
    if not own:
        return ""
    best = best_run(own)
    [right] = mean_cells([best.evaluations[test_set]], "accuracy")
    return f"{right} after {best.updates:,}"
