"""`graphut generate`."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature

import torch

from graphut.cli.answers import show_answers
from graphut.cli.device import add_device, pick_device
from graphut.cli.options import flag
from graphut.cli.parser import Parser
from graphut.models import UniversalTransformer
from graphut.training import Run

_DEFAULTS = {
    name: parameter.default
    for name, parameter in signature(UniversalTransformer.generate).parameters.items()
}


def main(argv: Sequence[str]) -> int:
    """Print outputs, and under each token the number of steps it took."""
    arguments = vars(_parser().parse_args(argv))
    folder, texts, device, seed = (
        arguments.pop(key) for key in ("folder", "sequences", "device", "seed")
    )
    run = Run.open(folder)
    sources = [run.source_vocabulary.encode(text.split()) for text in texts]
    model = run.model().to(pick_device(device))
    generator = torch.Generator().manual_seed(seed)
    show_answers(run, model, sources, generator=generator, **arguments)
    return 0


def _parser() -> Parser:
    parser = Parser(prog="graphut generate", description="Answer sequences, and show the steps.")
    parser.add_argument("folder", help="the folder of a run")
    parser.add_argument("sequences", nargs="+", help='symbols between spaces: "q d x a"')
    for name, kind, help in (
        ("max_length", int, "tokens of an output at most, <eos> included"),
        ("beam_size", int, "hypotheses that beam search keeps; 1 is greedy"),
        ("length_penalty", float, "of beam search: more favours longer outputs"),
        ("temperature", float, "draw tokens instead of taking the likeliest; below 1 sharpens"),
        ("top_p", float, "draw among the likeliest tokens that have this probability together"),
    ):
        parser.add_argument(
            flag(name),
            type=kind,
            default=_DEFAULTS[name],
            metavar="N" if kind is int else "X",
            help=f"{help} (default: {_DEFAULTS[name]})",
        )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of draws (default: 0)")
    add_device(parser)
    return parser
