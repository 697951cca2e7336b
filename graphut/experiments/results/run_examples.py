"""Test examples of a run, right and wrong: steps of tokens, attention, and pictures of graphs."""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

import networkx
import torch
from markupsafe import Markup

from graphut.experiments.tasks import GraphTask, Task
from graphut.experiments.tasks.base import in_batches
from graphut.experiments.training import Run
from graphut.experiments.training.evaluation import progress_bar
from graphut.experiments.training.generation import PonderedPart, attention_tables, padded
from graphut.models.base import AdaptiveModel
from graphut.nn.ponder import steps_html
from graphut.plotting import draw_frontier

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

_MOST_WEIGHTS = 600_000  # of attention, of all examples together: 5 bytes each at most
_BATCH = 20  # examples: their attention stays in memory
_LARGEST_GRAPH = 60  # nodes of a graph that is drawn
_TITLES = {False: "Wrong: test example", True: "Right: test example", None: "Test example"}


class Picture(NamedTuple):
    """A picture for a page of HTML."""

    alt: str  # the text in its place
    png: str  # base64
    width: int  # pixels of the page

    @classmethod
    def of(cls, figure: Figure | SubFigure, alt: str) -> Picture:
        """Return the picture of a figure."""
        stream = BytesIO()
        figure.figure.savefig(stream, format="png")
        width = round(96 * figure.figure.get_figwidth())
        return cls(alt, b64encode(stream.getvalue()).decode(), width)


class ShownExample(NamedTuple):
    """A test example, and how the model pondered over it."""

    title: str
    answer: str
    right_answer: str
    steps: Markup  # the tokens, with their steps
    graph: Picture | None
    attention: list[dict[str, Any]] | None  # for the sliders; None where it is too large


def show_examples(
    run: Run, task: Task, model: AdaptiveModel, count: int
) -> tuple[list[ShownExample], Counter[bool | None]]:
    """Answer the first test examples; return some of them, and how many are right (True) or wrong.

    The shortest, the middle and the longest are returned, of the right ones and of the wrong ones.
    """
    lengths: dict[bool | None, list[tuple[int, int]]] = {verdict: [] for verdict in _TITLES}
    for batch in progress_bar(iterable=[*in_batches(range(count), _BATCH)], desc="answering"):
        answers = run.learner.answers(model, task, [task.test[index] for index in batch])
        for index, found in zip(batch, answers, strict=True):
            lengths[found.is_right].append((sum(len(part.names) for part in found.parts), index))
    chosen: list[int] = []
    for each in lengths.values():
        order = [index for _, index in sorted(each)]
        chosen += dict.fromkeys([*order[:1], *order[len(order) // 2 :][:1], *order[-1:]])
    shown, room = [], _MOST_WEIGHTS
    for index in chosen:  # once more: the attention of all takes much memory
        found = run.learner.answer(model, task, task.test[index])
        attention = _attention(found.parts, room)
        room -= sum(len(table["weights"]) for table in attention or ())
        shown.append(
            ShownExample(
                f"{_TITLES[found.is_right]} {index + 1}",
                found.answer,
                found.right_answer,
                Markup(steps_html({part.name: _steps(part) for part in found.parts})),
                _draw_graph(found.parts[0]) if isinstance(task, GraphTask) else None,
                attention,
            )
        )
    return shown, Counter({verdict: len(each) for verdict, each in lengths.items()})


def _steps(part: PonderedPart) -> tuple[list[str], list[int]]:
    steps = part.ponder.steps.tolist()
    return padded(part.names, len(steps)), steps


def _attention(parts: Sequence[PonderedPart], room: int) -> list[dict[str, Any]] | None:
    """Return the attention, in thousandths by step, head, query and key; None without room."""
    tables = [*attention_tables(parts)]
    if sum(table.weights.numel() for table in tables) > room:
        return None
    return [
        {
            "title": table.title,
            "steps": table.weights.shape[0],
            "heads": table.weights.shape[1],
            "queries": table.queries,
            "keys": table.keys,
            "weights": (1000 * table.weights.double()).round().long().flatten().tolist(),
        }
        for table in tables
    ]


def _draw_graph(part: PonderedPart) -> Picture | None:
    """Return a picture of a graph and its active nodes at each step, if it is small."""
    layout, size = part.ponder.layouts[0].to("cpu"), len(part.names)
    if size > _LARGEST_GRAPH:
        return None
    row, source, _ = layout.in_edges()
    graph = networkx.Graph([*zip(source.tolist(), row.tolist(), strict=True)])
    distances = {  # the trees of a forest stand beside each other
        node: {**dict.fromkeys(graph, size / 2), **near}
        for node, near in networkx.all_pairs_shortest_path_length(graph)
    }
    found = networkx.kamada_kawai_layout(graph, dist=distances)
    places = torch.tensor([[*found[node]] for node in range(size)])
    names = [*map(str, range(size))]
    figure = draw_frontier(layout, part.ponder.steps, names=names, places=places)
    titles = "; ".join(axes.get_title() for axes in figure.axes)
    return Picture.of(figure, f"The graph, and its active nodes in blue. {titles}.")
