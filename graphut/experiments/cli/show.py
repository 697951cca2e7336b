"""`graphut show`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from graphut._files import explain_write_errors
from graphut.experiments.cli.device import add_device, pick_device
from graphut.experiments.cli.options import Parser, add_options, build, check_options, field_names
from graphut.experiments.training import Run
from graphut.experiments.training.generation import (
    AttentionTable,
    PonderedPart,
    attention_tables,
    padded,
)
from graphut.experiments.training.learners import LEARNERS
from graphut.plotting import animate_frontier, draw_attention, draw_ponder
from graphut.plotting.attention import MAX_PANELS, attention_size
from graphut.plotting.figure import check_picture_path, new_figure, save_figure, shortened
from graphut.plotting.ponder import ponder_size

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

_WIDEST = 16.0  # inches, of pictures beside each other
_MOST_STEPS = 16  # of attention
_TITLE = 0.35  # inches
_LETTERS = 11  # of the title in an inch


class _Picture(NamedTuple):
    title: str
    size: tuple[float, float]  # inches
    draw: Callable[[SubFigure], object]


def main(argv: Sequence[str]) -> int:
    """Draw how a model thinks about a text."""
    options = vars(_parser().parse_args(argv))
    folder, text, out, device, what = (
        options.pop(key) for key in ("folder", "text", "out", "device", "draw")
    )
    check_picture_path(out, "gif")
    animated = Path(out).suffix.lower() == ".gif"
    if animated and what is not None:
        raise ValueError("--draw is for pictures: a .gif shows who is active in each step")
    run = Run.open(folder)
    learner = run.learner
    check_options(options, field_names(learner.generation_kind), f"the task {run.task_name}")
    asked = build(learner.generation_kind, options)
    model = run.trained_model(pick_device(device))
    [answer] = learner.generate(model, run.vocabularies, [text], asked, get_attention=True)
    parts, said = answer.parts, answer.text.removeprefix(text)
    if animated:
        _animate(parts[-1], out)
    else:
        rows = []
        if what != "attention":
            rows += _rows([_ponder_picture(part) for part in parts])
        if what != "ponder":
            rows += _rows([*map(_attention_picture, attention_tables(parts))])
        save_figure(_arranged(" ".join(text.split()), said, rows), out)
    print(f"{out}: the answer is {said}")
    return 0


def _animate(part: PonderedPart, out: str) -> None:
    assert part.ponder.attention is not None
    graph = part.ponder.attention.layout
    names = padded(part.names, len(part.ponder.steps))
    animation = animate_frontier(graph, part.ponder.steps, names=names)
    with explain_write_errors(out):
        animation.save(out, writer="pillow")


def _ponder_picture(part: PonderedPart) -> _Picture:
    ponder = part.ponder
    names = padded(part.names, len(ponder.steps))
    return _Picture(
        f"{part.name}: steps of each token",
        ponder_size(names, int(ponder.steps.max())),
        lambda where: draw_ponder(names, ponder.steps, ponder.halting, axes=where.subplots()),
    )


def _attention_picture(table: AttentionTable) -> _Picture:
    weights, note = _few_panels(table.weights)
    return _Picture(
        f"attention, {table.title}{note}",
        attention_size(weights, table.queries, table.keys),
        lambda where: draw_attention(weights, table.queries, table.keys, figure=where),
    )


def _few_panels(weights: Tensor) -> tuple[Tensor, str]:
    """Return weights that fit into a picture, and a note on what they are."""
    steps, heads = weights.shape[:2]
    if steps <= _MOST_STEPS and steps * heads <= MAX_PANELS:
        return weights, ""
    first = f", the first {_MOST_STEPS} steps" if steps > _MOST_STEPS else ""
    return weights[:_MOST_STEPS].mean(1, keepdim=True), f": mean of the heads{first}"


def _rows(pictures: Sequence[_Picture]) -> list[list[_Picture]]:
    """Put pictures beside each other, in as many rows as they take."""
    rows: list[list[_Picture]] = [[]]
    for picture in pictures:
        if rows[-1] and _width([*rows[-1], picture]) > _WIDEST:
            rows.append([])
        rows[-1].append(picture)
    return rows


def _arranged(text: str, answer: str, rows: Sequence[Sequence[_Picture]]) -> Figure:
    heights = [max(picture.size[1] for picture in row) + _TITLE for row in rows]
    width = max(map(_width, rows))
    figure = new_figure(width, sum(heights) + _TITLE)
    room = max(8, int(_LETTERS * width / 2) - 2)  # of each side of the arrow
    title = f"{shortened(text, room)}  \N{RIGHTWARDS ARROW}  {shortened(answer, room)}"
    figure.suptitle(title, size=10, parse_math=False)
    lines = figure.subfigures(len(rows), 1, squeeze=False, height_ratios=heights)[:, 0]
    for line, row in zip(lines, rows, strict=True):
        widths = [picture.size[0] for picture in row]
        places = line.subfigures(1, len(row), squeeze=False, width_ratios=widths)[0]
        for place, picture in zip(places, row, strict=True):
            picture.draw(place)
            place.suptitle(picture.title, size=9)
    return figure


def _width(row: Sequence[_Picture]) -> float:
    return sum(picture.size[0] for picture in row)


def _parser() -> Parser:
    parser = Parser(
        prog="graphut show",
        description="Draw how a model thinks about a text: the steps of each token with the "
        "probabilities of halting, and the attention of each step and head.",
    )
    option = parser.add_argument
    option("folder", metavar="FOLDER", help="the folder of a run")
    option("text", metavar="TEXT", help="what to answer, as for graphut generate")
    help = (
        "the picture: .png, .pdf or .svg; or .gif, an animation of who is active in each step, in "
        "the decoder if there is one"
    )
    option("--out", metavar="FILE", required=True, help=help)
    help = "what to draw: ponder, attention or all (default: all)"
    option("--draw", choices=("ponder", "attention", "all"), help=help)
    add_device(parser)
    group = parser.add_argument_group("where the model writes")
    for learner in LEARNERS.values():
        add_options(group, learner.generation_kind)
    return parser
