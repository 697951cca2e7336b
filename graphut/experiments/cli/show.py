"""`graphut show`: draw the steps and the attention of the model of a run."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from graphut._files import explain_write_errors
from graphut.experiments.cli.options import pick_device
from graphut.experiments.tasks import GraphTask, Task
from graphut.experiments.training.generation import AttentionTable, PonderedPart, attention_tables
from graphut.experiments.training.learners import AnyLearner
from graphut.models.checked_config import cut
from graphut.plotting import animate_frontier, draw_attention, draw_frontier, draw_ponder
from graphut.plotting.attention import attention_size
from graphut.plotting.figure import new_figure, save_figure
from graphut.plotting.ponder import ponder_size

if TYPE_CHECKING:
    from matplotlib.animation import FuncAnimation
    from matplotlib.figure import Figure, SubFigure

_MOST_STEPS = 16  # of attention
_MOST_PANELS = 128  # of attention
_TITLE = 0.35  # inches
_LETTERS = 11  # of the title in an inch
_LARGEST_GRAPH = 100  # nodes of a graph that is drawn
_LARGEST_ANIMATED = 300  # nodes of a graph in a .gif, which then takes about 20 seconds


class _Picture(NamedTuple):
    title: str
    size: tuple[float, float]  # inches
    draw: Callable[[SubFigure], object]


def main(arguments: Namespace) -> int:
    """Draw the steps and the attention of a model for a text, or for a graph of the test set."""
    text, out, what = arguments.text, arguments.out, arguments.draw
    animated = Path(out).suffix.lower() == ".gif"
    run, search = arguments.run, arguments.search
    learner = run.learner(run.trained_model(pick_device(arguments.device)))
    if issubclass(run.kind, GraphTask):
        return _show_graph(learner, run.task(), text, out, animated)
    [answer] = learner.generate([text], search, get_attention=True)
    parts, written = answer.parts, answer.text.removeprefix(text)
    if animated:
        ponder = parts[-1].ponder
        _save(animate_frontier(ponder.layout, ponder.steps, names=parts[-1].node_names), out)
    else:
        pictures = map(_ponder_picture, parts)
        if what == "attention":
            pictures = map(_attention_picture, attention_tables(parts))
        save_figure(_stacked(" ".join(text.split()), written, [*pictures]), out)
    print(f"{out}: the answer is {written}", *(part.table() for part in parts), sep="\n")
    return 0


def _show_graph(learner: AnyLearner, task: Task, number: str, out: str, animated: bool) -> int:
    """Draw test graph `number`, counted from 1, with the active nodes of each step; return 0."""
    if not number.isdecimal() or not 0 < int(number) <= len(task.test):
        raise ValueError(
            f"a graph is named by its number in the test set, 1 to {len(task.test)}; got {number!r}"
        )
    example, most = task.test[int(number) - 1], _LARGEST_ANIMATED if animated else _LARGEST_GRAPH
    if (nodes := len(example.nodes)) > most:
        raise ValueError(f"the picture shows at most {most} nodes, but graph {number} has {nodes}")
    answer = learner.answer(example)
    ponder = answer.parts[0].ponder
    graph, active = ponder.layout, ponder.frontiers or ponder.steps
    names = [*map(str, range(graph.num_dst))]
    if animated:
        _save(animate_frontier(graph, active, names=names), out)
    else:
        save_figure(draw_frontier(graph, active, names=names), out)
    print(f"{out}: {answer.text}")
    return 0


def _save(animation: FuncAnimation, out: str) -> None:
    with explain_write_errors(out):
        animation.save(out, writer="pillow")


def _ponder_picture(part: PonderedPart) -> _Picture:
    ponder, names = part.ponder, part.node_names
    return _Picture(
        f"{part.name}: steps of each token",
        ponder_size(names, int(ponder.steps.max())),
        lambda where: draw_ponder(
            names, ponder.steps, ponder.halting, stopped=ponder.stopped, axes=where.subplots()
        ),
    )


def _attention_picture(table: AttentionTable) -> _Picture:
    weights, note = _few_panels(table.weights)
    return _Picture(
        f"attention, {table.title}{note}",
        attention_size(weights, table.queries, table.keys),
        lambda where: draw_attention(weights, table.queries, table.keys, figure=where),
    )


def _few_panels(weights: Tensor) -> tuple[Tensor, str]:
    """Fit attention to a picture (first steps, mean over heads), and also return a note."""
    steps, heads = weights.shape[:2]
    if steps <= _MOST_STEPS and steps * heads <= _MOST_PANELS:
        return weights, ""
    first = f", first {_MOST_STEPS} steps" if steps > _MOST_STEPS else ""
    return weights[:_MOST_STEPS].mean(1, keepdim=True), f": mean over heads{first}"


def _stacked(text: str, answer: str, pictures: Sequence[_Picture]) -> Figure:
    """Return a figure with the pictures below each other, and text and answer as its title."""
    width = max(picture.size[0] for picture in pictures)
    heights = [picture.size[1] + _TITLE for picture in pictures]
    figure = new_figure(width, sum(heights) + _TITLE)
    room = max(8, int(_LETTERS * width / 2) - 2)  # for each side of the arrow
    title = f"{cut(text, room)}  \N{RIGHTWARDS ARROW}  {cut(answer, room)}"
    figure.suptitle(title, size=10, parse_math=False)
    places = figure.subfigures(len(pictures), 1, squeeze=False, height_ratios=heights)[:, 0]
    for place, picture in zip(places, pictures, strict=True):
        picture.draw(place)
        place.suptitle(picture.title, size=9)
    return figure
