from __future__ import annotations

from argparse import Namespace

import pytest

from graphut.experiments.bench import Sizes, backend_names
from graphut.experiments.bench.scaling import NODES
from graphut.experiments.cli.bench_options import bench_parser
from graphut.topology import Causal, Complete, Window


def parsed(line: str) -> Namespace:
    return bench_parser().parse_args(line.split())


def test_bench_parser_defaults() -> None:
    attention = parsed("attention")
    assert (attention.topology, attention.dim, attention.heads) == (Complete(), 128, 8)
    assert (attention.dtype, attention.fraction, attention.repeats) == ("float32", 1.0, 9)
    assert attention.backends is attention.peers is attention.out is None
    assert parsed("model").backend == "auto"
    scaling = parsed("scaling")
    assert (scaling.topology, scaling.nodes, scaling.dim) == (Window(16), NODES, 64)
    assert (scaling.backend, scaling.repeats) == ("auto", 5)


def test_bench_parser_values() -> None:
    arguments = parsed("attention --topology causal --lengths 10-60 --peers --backends torch dgl")
    assert arguments.topology == Causal() and arguments.lengths == (10, 60)
    assert arguments.peers == [] and arguments.backends == ["torch", "dgl"]
    arguments = parsed("model --shape 8x400 --shape 3x2-4")
    assert arguments.shape == [Sizes(8, 400, 400), Sizes(3, 2, 4)]


def test_backend_names_leave_out_the_reference() -> None:
    assert "dense" not in backend_names()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("", "the following arguments are required: WHAT"),
        ("fly", "argument WHAT: invalid choice: 'fly'"),
        ("attention --topology windw:3", "argument --topology: unknown topology 'windw'"),
        ("attention --topology window:x", "expected an integer, got 'x'"),
        ("attention --lengths 9-", "'9-' is no range of lengths"),
        ("attention --backends dense", "argument --backends: invalid choice: 'dense'"),
        ("attention --peers jax", "argument --peers: invalid choice: 'jax'"),
        ("attention --dtype int8", "argument --dtype: invalid choice: 'int8'"),
        ("model --shape 8y3", "argument --shape: '8y3' is no shape"),
        ("scaling --nodes many", "argument --nodes: invalid int value: 'many'"),
        ("model --backend fast", "argument --backend: invalid choice: 'fast'"),
    ],
)
def test_bench_parser_refuses_in_one_line(
    argv: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parsed(argv)
    assert ended.value.code == 2
    text = capsys.readouterr().err
    assert message in text and text.startswith("graphut: ") and text.count("\n") == 1
