"""The report of a training run: one HTML page with its options, metrics, examples and cost."""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from torch import Tensor

from graphut._files import reraise_for_file
from graphut._version import __version__
from graphut.attention.ragged import ragged_arange
from graphut.experiments.messages import meaning_of
from graphut.experiments.records.record import DATA, RunRecord
from graphut.experiments.tables import NOT_MEASURED, is_share, percent, three_digits, with_prefix
from graphut.experiments.tasks import GraphTask, LabelledGraph, Task
from graphut.experiments.tasks.base import in_batches
from graphut.experiments.training import Run
from graphut.experiments.training.evaluation import progress_bar
from graphut.experiments.training.generation import PonderedPart, attention_tables
from graphut.experiments.training.learner import AnyLearner
from graphut.experiments.training.run_files import METRICS, read_metrics
from graphut.plotting import draw_attention, draw_frontier
from graphut.plotting.figure import new_figure
from graphut.plotting.frontier import place_nodes
from graphut.plotting.training import PANEL, training_panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

_ANSWERED = 100  # test examples
_BATCH = 20  # examples whose attention is in memory at the same time
_STEPS, _LONGEST = 6, 40  # steps and tokens of attention that is drawn
_MAX_TOKENS = 500  # in a row of tokens with their steps
_BLUE = (0, 114, 178)  # as in `graphut.plotting.figure`
_LARGEST_GRAPH = 60  # nodes of a graph that is drawn
_TITLES = {False: "Wrong: test example", True: "Correct: test example", None: "Test example"}
_WORK = "test set", "per example", "share of a run without halting"
_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined,
    trim_blocks=True, lstrip_blocks=True,
)  # fmt: skip
_Content = dict[str, Any]  # a table, a picture or an example, as the template reads it


def run_report(run: Run, device: torch.device) -> str:
    """Return the report of a run as one self-contained HTML page.

    The model answers the first 100 test examples; all other numbers come from the files of the run.
    Raise `ValueError` if no epoch is complete, the model was not evaluated, or a file is damaged.
    """
    new_figure(1, 1)  # raises ImportError without matplotlib, before the model answers
    record = RunRecord.of(run)
    evaluations = record.evaluations
    learner, task = run.learner(run.trained_model(device)), run.task()
    answered = min(_ANSWERED, len(task.test))
    examples, verdicts = _examples(learner, task, answered)
    results = ["test set", f"{learner.example}s", *record.metrics]
    groups = [
        _table(f"{name}, {key.replace('_', ' ')}", [*rows[0]], map(dict.values, rows))
        for name, evaluation in evaluations.items()
        for key, rows in evaluation.items()
        if key.startswith("by_") and rows
    ]
    work = [
        [name, with_prefix(evaluation["flops_per_example"]), percent(evaluation["flops_share"])]
        for name, evaluation in evaluations.items()
        if "flops_share" in evaluation
    ]
    keys = dict.fromkeys(key for machine in record.machines for key in machine)
    machines = [[key, *(machine.get(key) for machine in record.machines)] for key in keys]
    names = [f"machine {number}" for number, _ in enumerate(record.machines, 1)]
    size, unit = (1, "seconds") if record.seconds < 60 else (60, "minutes")
    options = ((name, str(value)) for name, value in record.setup.options.items())
    return _TEMPLATES.get_template("report.html").render(
        record=record,
        meaning=meaning_of(type(task)),
        duration=f"{three_digits(record.seconds / size)} {unit}",
        options=_table("Options", ["option", "value"], options),
        curves=[*_curves(run)],
        results=_table("Metrics", results, record.results),
        meanings=record.metrics,
        groups=groups,
        examples=examples,
        longest=_LONGEST,
        verdicts=verdicts,
        depth=[*_depth_tables(learner, task.test[:answered], run.training.batch_size)],
        work=_table("Operations", _WORK, work),
        machines=_table("Machines and versions", ["property", *names], machines),
        needs_data=any(DATA in command for command in record.commands),
        version=__version__,
    )


def _curves(run: Run) -> Iterator[_Content]:
    """Yield a picture for each panel of `draw_training`."""
    with reraise_for_file(run.folder / METRICS):
        runs = {run.folder.absolute().name: read_metrics(run.folder / METRICS)}
        for title, draw in training_panels(runs).items():
            figure = new_figure(*PANEL)
            draw(axes := figure.add_subplot())
            alt = f"{title}, for each epoch."
            if axes.lines:
                curve: Any = axes.lines[0].get_ydata()
                text = percent if is_share(title) else three_digits
                alt = f"Curve of {title}; first {text(curve[0])}, last {text(curve[-1])}."
            yield _picture(figure, alt)


@torch.no_grad()
def _depth_tables(
    learner: AnyLearner, examples: Sequence[Any], batch_size: int
) -> Iterator[_Content]:
    """Yield tables of steps in encoder and decoder: shares of nodes, and means by position."""
    by_steps = "where nodes halt"
    parts: dict[str, list[tuple[Tensor, Tensor]]] = {}
    with learner.model.evaluating():
        for batch in in_batches(examples, batch_size):
            for part, ponder in learner.outcome(batch, 0.0).ponders.items():
                if ponder.rounds is not None:  # no node halts for good
                    by_steps = "how often nodes compute"
                place = ragged_arange(ponder.layouts[0].dst_lengths.cpu())[1]
                parts.setdefault(part, []).append((ponder.steps.cpu(), place))
    for part, pairs in parts.items():
        steps, place = (torch.cat(column) for column in zip(*pairs, strict=True))
        halted = enumerate((steps.bincount()[1:] / len(steps)).tolist(), 1)
        yield _table(f"{part}: {by_steps}", ["step", "share of the nodes"], halted)
        if not isinstance(examples[0], LabelledGraph):  # nodes of graphs have no order
            means = enumerate((place.bincount(steps.double()) / place.bincount()).tolist(), 1)
            yield _table(f"{part}: steps by position", ["position", "mean steps"], means)


def _examples(
    learner: AnyLearner, task: Task, count: int
) -> tuple[list[_Content], Counter[bool | None]]:
    """Run the model on `count` examples; return up to nine, and count correct and wrong results."""
    lengths: dict[bool | None, list[tuple[int, int]]] = {verdict: [] for verdict in _TITLES}
    for batch in progress_bar(iterable=[*in_batches(range(count), _BATCH)], desc="answering"):
        answers = learner.answers([task.test[index] for index in batch])
        for index, answer in zip(batch, answers, strict=True):
            length = sum(len(part.names) for part in answer.parts)
            lengths[answer.is_correct].append((length, index))
    selected: list[int] = []
    for each in lengths.values():
        order = [index for _, index in sorted(each)]
        selected += dict.fromkeys([*order[:1], *order[len(order) // 2 :][:1], *order[-1:]])
    examples = []
    for index in selected:  # again, since the attention of all examples takes much memory
        answer = learner.answer(task.test[index])
        steps = {
            part.name: (part.node_names, steps := part.ponder.steps.tolist(), part.counts(steps))
            for part in answer.parts
            if part.is_listed
        }
        examples.append(
            {
                "title": f"{_TITLES[answer.is_correct]} {index + 1}",
                "answer": answer.text,
                "expected": answer.correct,
                "steps": Markup(steps_html(steps)) if steps else answer.parts[0].table(),
                "graph": _draw_graph(answer.parts[0]) if isinstance(task, GraphTask) else None,
                "attention": _attention(answer.parts),
            }
        )
    return examples, Counter({verdict: len(each) for verdict, each in lengths.items()})


def _attention(parts: Sequence[PonderedPart]) -> list[tuple[str, _Content]]:
    """Return a title and a picture for each short attention map, averaged over the heads."""
    pictures = []
    for title, weights, queries, keys in attention_tables(parts, _LONGEST):
        figure = draw_attention(weights[:_STEPS].mean(1, keepdim=True), queries, keys)
        picture = _picture(figure, "Each row of the picture is a step.")
        pictures.append((f"Attention, {title}: mean over the heads", picture))
    return pictures


def _draw_graph(part: PonderedPart) -> _Content | None:
    """Draw a graph and its active nodes at each step; return None if the graph is large."""
    layout, size = part.ponder.layouts[0], len(part.names)
    if size > _LARGEST_GRAPH:
        return None
    active = part.ponder.frontiers or part.ponder.steps
    names = [*map(str, range(size))]
    figure = draw_frontier(layout, active, names=names, places=place_nodes(layout))
    titles = "; ".join(axes.get_title() for axes in figure.axes)
    return _picture(figure, f"The graph, and its active nodes in blue. {titles}.")


def _table(caption: str, head: Sequence[str], rows: Iterable[Iterable[Any]]) -> _Content:
    """Return a table of text: shares become percentages, and other floats have four digits."""

    def text(name: str, value: Any) -> str:
        if isinstance(value, float):
            return percent(value) if is_share(name) else f"{value:.4g}"
        return NOT_MEASURED if value is None else str(value)

    cells = [[*map(text, head, row)] for row in rows]
    return {"caption": caption, "head": [name.replace("_", " ") for name in head], "rows": cells}


def _picture(figure: Figure | SubFigure, alt: str) -> _Content:
    stream = BytesIO()
    figure.figure.savefig(stream, format="png")
    width = round(96 * figure.figure.get_figwidth())
    return {"alt": alt, "png": b64encode(stream.getvalue()).decode(), "width": width}


def steps_html(rows: Mapping[str, tuple[Sequence[object], Sequence[int], Sequence[str]]]) -> str:
    """Return HTML with a line of tokens for each name, darker where a token took more steps.

    `rows` maps a name to tokens, their numbers of steps, and these numbers as texts.
    """
    most = max((max(steps, default=1) for _, steps, _ in rows.values()), default=1)
    lines = []
    for name, (tokens, steps, texts) in rows.items():
        columns = list(zip(tokens, steps, texts, strict=True))[:_MAX_TOKENS]
        cells = " ".join(_cell(str(token), n, text, most) for token, n, text in columns)
        more = f" and {len(steps) - _MAX_TOKENS} more" if len(steps) > _MAX_TOKENS else ""
        lines.append(f"<div><b>{escape(name)}</b> {cells}{more}</div>")
    return "".join(lines)


def _cell(token: str, step: int, text: str, most: int) -> str:
    share = 0.6 * step / most  # light enough for black letters
    red, green, blue = (round(255 - share * (255 - channel)) for channel in _BLUE)
    style = f"background: rgb({red}, {green}, {blue}); color: black; padding: 0 3px"
    return f'<span style="{style}" title="{step} steps">{escape(token)}<sub>{text}</sub></span>'
