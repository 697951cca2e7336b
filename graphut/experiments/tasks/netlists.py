"""Circuits from files in Verilog and ISCAS bench format, read with `circuitgraph`."""

import re
from pathlib import Path
from typing import Any

from graphut._files import reraise_for_file
from graphut.experiments.tasks.circuits import GENERATORS, Builder, Circuit

SUFFIXES = (".v", ".bench")


def library_circuits() -> list[str]:
    """Return the names of the circuits that come with `circuitgraph`, each circuit once.

    Variants of the ISCAS-85 circuits with other gates, such as c17g or c17_gates, are left out.
    """
    names = sorted(path.stem for path in _library())
    return [name for name in names if not re.fullmatch(r"c\d+(g|_.*)", name)]


def library_circuit(name: str) -> Circuit:
    """Read a circuit that comes with `circuitgraph`, such as the multiplier c6288.

    Raise `ValueError` if there is no circuit of that name.
    """
    problem = f"{name!r} is not {', '.join(f'{kind}-BITS' for kind in GENERATORS)}"
    try:
        paths = [path for path in _library() if path.stem == name]
    except ImportError as error:
        raise ImportError(f"{problem}, or a .v or .bench file; other {error}") from None
    if not paths:
        names = ", ".join(library_circuits())
        raise ValueError(f"{problem}, a .v or .bench file, or a circuit of circuitgraph ({names})")
    return read_circuit(paths[0])


def read_circuit(path: str | Path) -> Circuit:
    """Read a circuit from structural Verilog (`.v`) or an ISCAS netlist (`.bench`).

    Flip-flops (`ff`, `flopd`, `fflopd`, `flopdrs`, `fflopdrs`, `GTECH_FD1` to `GTECH_FD3`) are
    removed: their outputs become inputs of the circuit, and their inputs become outputs. A gate
    with more than two inputs becomes a balanced tree of gates with two inputs.

    Raise `ImportError` if `circuitgraph` is not installed, and `FileNotFoundError` or `ValueError`
    if there is no such file, or its circuit has a loop, an unknown value or unknown module.
    """
    if Path(path).suffix not in SUFFIXES:
        raise ValueError(f"{path} must be a circuit, a file that ends in {' or '.join(SUFFIXES)}")
    package = _circuitgraph()
    io, parsing_error = package.io, package.parsing.VerilogParsingError
    flip_flops = [io.BlackBox("ff", ["CK", "D"], ["Q"]), *io.genus_flops, *io.dc_flops]
    with reraise_for_file(path, "is not a circuit that can be read"):
        try:
            return _convert(io.from_file(path, blackboxes=flip_flops))
        except parsing_error as error:
            where = f"line {error.line} and column {error.column} of the module"
            raise ValueError(f"{error.message}, at {where}") from error


def _convert(read: Any) -> Circuit:
    """Convert a circuit of `circuitgraph`; each gate gets a higher number than its inputs."""
    import networkx

    graph, build = read.graph, Builder()
    number: dict[str, int] = {}
    ends: dict[str, list[int]] = {}
    if read.is_cyclic():
        loop = [name for name, _ in networkx.find_cycle(graph)]
        raise ValueError(f"its gates form a loop: {' -> '.join(loop)}")
    for name in networkx.lexicographical_topological_sort(graph):
        kind, sources = graph.nodes[name]["type"], sorted(graph.pred[name])
        plain = name.removeprefix("\\")  # which escapes brackets
        if kind in ("input", "bb_output"):
            [number[name]] = build.word(plain, 1)
        elif kind in ("0", "1"):
            number[name] = build.gate(kind)
        elif sources and kind != "x":
            gate = "buf" if kind == "bb_input" else kind
            number[name] = build.gate(gate, *(number[source] for source in sources))
        elif kind == "bb_input":
            continue  # an input of a flip-flop that is not connected
        else:
            raise ValueError(f"its net {name} has no value")
        if kind == "bb_input" or read.is_output(name):
            ends[plain] = [number[name]]
    return build.build(ends)


def _library() -> list[Path]:
    folder = Path(_circuitgraph().__file__).parent / "netlists"
    return [path for path in folder.iterdir() if path.suffix in SUFFIXES]


def _circuitgraph() -> Any:
    try:
        import circuitgraph.io
    except ImportError as error:
        raise ImportError(
            f"circuits are read by circuitgraph ({error}): pip install circuitgraph"
        ) from None
    return circuitgraph
