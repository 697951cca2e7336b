"""Simulate a logic circuit with a trained model, flip inputs, and draw which gates compute.

    graphut train examples/tasks/circuits.py --preset waking --out runs/circuits
    python examples/circuit_wave.py runs/circuits adder-64 --out wave.png

The circuit is a generated one (adder-64, multiplier-16, divider-16 or sqrt-32; the number is the
width in bits), a file of Verilog, or one that comes with circuitgraph, such as c6288. The model has
seen only random circuits with at most 60 gates. At first all gates compute, and later a gate
computes only when something that it reads has changed. When the circuit is at rest, an input flips,
and the model continues from the values that it has: a carry runs along the adder. All values are
compared with an exact simulation.
"""

import argparse
from dataclasses import replace

import numpy as np
import torch
from tasks.circuits import KINDS, find_circuit

import graphut
from graphut.attention import layout_from_edges
from graphut.models.outputs import GraphOutput
from graphut.nn import EventDriven
from graphut.plotting.figure import BLUE, check_picture_path, new_figure, save_figure


def describe(output: GraphOutput, wanted: np.ndarray) -> str:
    """Return the work of a run and the number of wrong gates."""
    wrong = int((output.logits.argmax(1).numpy() != wanted).sum())
    updates, rounds = int(output.ponder.steps.sum()), int(output.ponder.rounds)
    return f"{updates} updates of gates in {rounds} rounds, {wrong} gates wrong"


def draw(runs: dict[str, GraphOutput], levels: np.ndarray, path: str) -> None:
    """Draw a dot for each round and each level with gates that compute."""
    figure = new_figure(4.5 * len(runs), 3.5)
    for number, (title, output) in enumerate(runs.items(), 1):
        axes = figure.add_subplot(1, len(runs), number)
        for time, gates in enumerate(output.ponder.frontiers, 1):
            level = np.unique(levels[gates])
            axes.plot(np.full(len(level), time), level, ".", color=BLUE, markersize=2)
        axes.set(title=title, xlabel="round", ylabel="level of the gates that compute")
    save_figure(figure, path)


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", help="folder of a run of tasks/circuits.py with the preset waking")
    parser.add_argument("circuit", help="such as adder-64, c6288 or my.v")
    parser.add_argument("--flips", type=int, default=5, help="inputs to flip (default: 5)")
    parser.add_argument("--out", default="wave.png", help="picture to write (default: wave.png)")
    options = parser.parse_args()
    if options.flips < 1:
        parser.error(f"--flips must be at least 1, got {options.flips}")

    try:
        check_picture_path(options.out)
        model = graphut.load(options.run).eval()
        circuit = find_circuit(options.circuit)
    except (ImportError, OSError, ValueError) as error:
        parser.error(str(error))
    wakes = isinstance(model.evaluation_rule, EventDriven)
    if not wakes or getattr(model.config, "num_kinds", 0) != len(KINDS):
        parser.error(f"{options.run} is not a run of tasks/circuits.py with the preset waking")
    random = np.random.default_rng(0)
    gates, inputs = len(circuit.kinds), circuit.inputs
    model.evaluation_rule = replace(model.evaluation_rule, max_rounds=4 * gates + 100)  # a bound
    layout = layout_from_edges(*torch.from_numpy(circuit.edges), num_src=gates, num_dst=gates)
    print(f"{options.circuit}: {gates} gates and inputs, {circuit.levels.max()} levels")

    bits = random.integers(0, 2, len(inputs), np.int8)
    nodes = torch.from_numpy(circuit.with_bits(bits))
    output = model(layout, nodes, get_steps=True)
    print(f"new start: {describe(output, circuit.simulate(bits[None])[0])}")
    runs, most = {"new start": output}, 0

    for flipped in random.integers(len(inputs), size=options.flips):
        before = circuit.simulate(bits[None])[0]
        bits[flipped] ^= 1
        after = circuit.simulate(bits[None])[0]
        changed = torch.from_numpy(inputs[[flipped]])
        nodes = torch.from_numpy(circuit.with_bits(bits))
        output = model.resume(output.ponder, layout, nodes, changed=changed, get_steps=True)
        print(
            f"input {flipped} flips: {describe(output, after)}; the values of "
            f"{(before != after).sum()} gates change"
        )
        if (updates := int(output.ponder.steps.sum())) > most:  # the longest wave is drawn
            most = updates
            runs = {"new start": runs["new start"], f"input {flipped} flips": output}
    draw(runs, circuit.levels, options.out)


if __name__ == "__main__":
    main()
