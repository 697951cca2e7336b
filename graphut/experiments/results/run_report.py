"""The report of a run: one HTML file with what was learned, how well, and how the model thinks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from torch import Tensor

from graphut._files import reraise_for_file
from graphut._version import __version__
from graphut.attention.ragged import ragged_arange
from graphut.experiments.results.line_chart import Chart, Panel, Series
from graphut.experiments.results.run_examples import Picture, show_examples
from graphut.experiments.results.run_record import RunRecord
from graphut.experiments.results.run_setup import DATA, judged_on, option_fields, usual_options
from graphut.experiments.tables import NOT_MEASURED, percent, three_digits, with_prefix
from graphut.experiments.tasks import GraphTask, Task
from graphut.experiments.tasks.base import in_batches
from graphut.experiments.training import Run
from graphut.experiments.training.run_files import METRICS, read_metrics
from graphut.experiments.wording import counted, flag, meaning_of
from graphut.models.base import AdaptiveModel
from graphut.plotting import draw_training
from graphut.plotting.figure import new_figure

_LOOKED_AT = 100  # test examples

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.policies["json.dumps_kwargs"] = {"separators": (",", ":")}


class _Table(NamedTuple):
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def run_report(run: Run, device: torch.device) -> str:
    """Return the report of a run as HTML, which refers to no other file.

    The first 100 test examples are answered; other numbers are those of the run's own files. Raise
    `ValueError` if no epoch of the run is done, or its model was not judged on a test set.
    """
    new_figure(1, 1)  # a missing matplotlib is to be known before the model has answered
    record, model, task = RunRecord.of(run.folder), run.trained_model(device), run.task()
    count = min(_LOOKED_AT, len(task.test))
    depth = [*_depth_panels(run, task, model, count)]
    examples, verdicts = show_examples(run, task, model, count)
    return _TEMPLATES.get_template("run_report.html").render(
        record=record,
        meaning=meaning_of(type(task)),
        minutes=three_digits(record.seconds / 60),
        options=_options(record),
        curves=_curves(run),
        results=_results(run, record),
        meanings=run.learner.metric_meanings,
        accuracy=_chart([*_panels(record, "accuracy", "error")]),
        groups=[_table(name, [*rows[0]], map(dict.values, rows)) for name, rows in _parts(record)],
        examples=examples,
        attention=[example.attention for example in examples if example.attention],
        verdicts=verdicts,
        depth=_chart([*depth, *_panels(record, "steps")]),
        depth_numbers=[*map(_numbers, depth)],
        work=_work(record),
        machines=_machines(record),
        needs_data=any(DATA in command for command in record.commands),
        version=__version__,
    )


def _options(record: RunRecord) -> tuple[_Table, _Table]:
    """Return the options that differ from the preset, and the others."""
    setup, fields = record.setup, option_fields(record.task)
    usual = usual_options(record.task, setup.preset)
    usual |= {name: "to be given" for name, value in usual.items() if value is MISSING}
    changed, others = [], []
    for name, value in {**usual, **record.options}.items():
        meaning = fields[name].metadata["help"]
        if name in setup.options:
            changed.append([flag(name), str(value), str(usual[name]), meaning])
        else:
            others.append([flag(name), str(value), meaning])
    preset = f"the preset {setup.preset}" if setup.preset else "the defaults"
    head = ["option", "value", preset, "meaning"]
    return (
        _Table(f"Options that differ from {preset}", head, changed),
        _Table(f"Options as in {preset}", ["option", "value", "meaning"], others),
    )


def _curves(run: Run) -> Picture:
    with reraise_for_file(run.folder / METRICS):
        figure = draw_training({run.folder.name: read_metrics(run.folder / METRICS)})
    curves: list[tuple[str, Any]] = [
        (axes.get_title(), axes.lines[0].get_ydata()) for axes in figure.axes
    ]
    ends = [f"{title} {three_digits(y[0])} and {three_digits(y[-1])}" for title, y in curves]
    return Picture.of(figure, f"Curves; after the first and the last epoch: {', '.join(ends)}.")


def _results(run: Run, record: RunRecord) -> _Table:
    metrics = [*run.learner.metric_meanings]
    rows = [
        [
            judged_on(name, found),
            found["examples"],
            *(found.get(metric) for metric in metrics),
        ]
        for name, found in record.evaluations.items()
    ]
    return _table(
        "Metrics on the test sets", ["test set", f"{run.learner.example}s", *metrics], rows
    )


def _parts(record: RunRecord) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the rows of each evaluation by length, by depth, by group, ..., with their name."""
    for name, found in record.evaluations.items():
        for key, rows in found.items():
            if key.startswith("by_") and rows:
                yield f"{name}, {_words(key)}", rows


def _panels(record: RunRecord, *endings: str) -> Iterator[Panel]:
    """Yield panels of those columns by length or by difficulty whose names end so."""
    for name, rows in _parts(record):
        keys = [key for key in rows[0] if key.endswith(endings)]
        series = [Series(_words(key), points) for key in keys if (points := _points(rows, key))]
        if series and len(rows) > 1:
            yield Panel(name, name.rpartition(", by ")[2], "", series)


def _points(rows: Sequence[Mapping[str, Any]], key: str) -> list[tuple[float, float]]:
    """Return length or difficulty, and a number, of each row that has both."""
    return [(x, row[key]) for row in rows if None not in (x := _place(row), row[key])]


def _place(row: Mapping[str, Any]) -> Any:
    """Return the length or the difficulty of a row; None for a group that has a name."""
    if "from" in row:
        return (row["from"] + row["to"]) / 2
    first = next(iter(row.values()))
    return None if isinstance(first, str) else first


@torch.no_grad()
def _depth_panels(run: Run, task: Task, model: AdaptiveModel, count: int) -> Iterator[Panel]:
    """Yield how many nodes halt at each step, and the steps by position, of each part."""
    found: dict[str, list[tuple[Tensor, Tensor]]] = {}
    with model.evaluating():
        for batch in in_batches(task.test[:count], run.training.batch_size):
            for part, ponder in run.learner.outcome(model, batch, 0.0).ponders.items():
                place = ragged_arange(ponder.layouts[0].dst_lengths.cpu())[1]
                found.setdefault(part, []).append((ponder.steps.cpu(), place))
    label = counted(count, f"test {run.learner.example}")
    for part, pairs in found.items():
        steps, place = (torch.cat(column) for column in zip(*pairs, strict=True))
        shares = steps.bincount()[1:] / len(steps)
        lines = [(f"{part}: where nodes halt", "step", "share of nodes", shares)]
        if not isinstance(task, GraphTask):  # whose nodes are in no order
            means = place.bincount(steps.double()) / place.bincount()
            lines.append((f"{part}: steps by position", "position", "mean steps", means))
        for title, x, y, values in lines:
            yield Panel(title, x, y, [Series(label, [*enumerate(values.tolist(), 1)])])


def _chart(panels: Sequence[Panel]) -> Picture | None:
    """Return a picture of panels, or None if there is none."""
    alt = f"Charts, whose numbers stand in tables: {'; '.join(panel.title for panel in panels)}."
    return Picture.of(Chart("", panels).draw(), alt) if panels else None


def _numbers(panel: Panel) -> _Table:
    """Return the points of a panel with one series."""
    [series] = panel.series
    return _table(panel.title, [panel.x, panel.y], series.points)


def _work(record: RunRecord) -> _Table | None:
    """Return the operations on each test set; None if they were not counted."""
    rows = [
        [
            name,
            with_prefix(found["flops_per_example"]),
            *(f"{percent(x)}%" for x in (share, 1 - share)),
        ]
        for name, found in record.evaluations.items()
        if (share := found.get("flops_share")) is not None
    ]
    head = ["test set", "operations for an example", "share of all", "saved"]
    return _Table("Operations on the test sets", head, rows) if rows else None


def _machines(record: RunRecord) -> _Table:
    machines = record.machines
    names = [f"machine {number}" for number in range(1, len(machines) + 1)]
    keys = dict.fromkeys(key for machine in machines for key in machine)
    rows = [[key, *(machine.get(key) for machine in machines)] for key in keys]
    return _table("Machines that trained it", ["what", *names], rows)


def _table(caption: str, head: Sequence[str], rows: Iterable[Iterable[Any]]) -> _Table:
    """Return a table with numbers of four digits, and names of columns in words."""
    return _Table(caption, [*map(_words, head)], [[*map(_text, row)] for row in rows])


def _words(name: str) -> str:
    return name.replace("_", " ")


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return NOT_MEASURED if value is None else str(value)
