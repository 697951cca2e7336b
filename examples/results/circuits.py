"""Append to circuits.csv how much a trained model computes after changes of circuits.

    graphut train examples/tasks/circuits.py --preset waking --seed 0 --out RUN
    python examples/results/circuits.py RUN adder-512 multiplier-32 divider-64

From rest, an input flips, a gate becomes another kind of gate, or a wire moves to another source,
and the model continues. The next change begins where the last one ended. A row has the means over
the changes, and the share after which the value of every gate is correct. The correct values are
those of a simulator with unit delays in plain Python, which evaluates a gate when one of its inputs
has changed. Times are CPU times of one thread. The time in which every gate computes in every round
of a new start is extrapolated from 20 rounds.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import Any

import numpy as np
import torch

from graphut.attention import EdgeLayout, layout_from_edges
from graphut.experiments.records import append_rows, describe_machine
from graphut.experiments.training import Run
from graphut.nn import FixedDepth

sys.path.append(str(Path(__file__).parents[1]))
from tasks.circuits import TRUTH, Circuit, find_circuit

TABLE = Path(__file__).with_name("circuits.csv")
CHANGES = "input", "gate", "wire"
Work = dict[str, float]


def simulate(circuit: Circuit, values: list[int], awake: set[int]) -> Work:
    """Evaluate gates until no value changes; write into `values`, and return the work."""
    kinds, sources, readers = circuit.kinds.tolist(), circuit.sources.tolist(), defaultdict(list)
    for gate, pins in enumerate(sources):
        for pin in pins:
            readers[pin].append(gate)
    table, before, evaluations, events = [*TRUTH.values()], values.copy(), 0, 0
    start = process_time()
    while awake:
        changed = []
        for gate in awake:
            one, other = sources[gate]
            value = table[kinds[gate]][2 * values[one] + values[one if other < 0 else other]]
            if value != values[gate]:
                changed.append((gate, value))
        evaluations, events = evaluations + len(awake), events + len(changed)
        for gate, value in changed:
            values[gate] = value
        awake = {reader for gate, _ in changed for reader in readers[gate]}
    ms = 1e3 * (process_time() - start)
    different = sum(one != other for one, other in zip(before, values, strict=True))
    work = {"evaluations": evaluations, "events": events}
    return work | {"values": different, "simulator_ms": ms}


def change(circuit: Circuit, what: str, random: np.random.Generator) -> tuple[Circuit, int]:
    """Flip an input, change the kind of a gate, or move a wire; return also the node."""
    kinds, sources = circuit.kinds.copy(), circuit.sources.copy()
    gates = np.flatnonzero(sources[:, 1] >= 0)
    node = int(random.choice(circuit.inputs if what == "input" else gates))
    if what == "input":
        kinds[node] = 1 - kinds[node]
    elif what == "gate":
        kinds[node] = random.choice(np.setdiff1d(np.arange(2, 8), kinds[node]))
    else:  # from an earlier node, so that there is no loop
        sources[node, 0] = random.choice(np.setdiff1d(np.arange(node), sources[node]))
    return replace(circuit, kinds=kinds, sources=sources), node


def layout_of(circuit: Circuit) -> EdgeLayout:
    size = len(circuit.kinds)
    return layout_from_edges(*torch.from_numpy(circuit.edges), num_src=size, num_dst=size)


@torch.no_grad()
def follow(model: Any, circuit: Circuit, what: str) -> Iterator[Work]:
    """Yield the work of a new start, and then of changes of one kind, without end."""
    random, layout, values = np.random.default_rng(0), layout_of(circuit), [0] * len(circuit.kinds)
    call, awake = model, set(range(len(values)))
    while True:
        start = process_time()
        output = call(graph=layout, nodes=torch.from_numpy(circuit.kinds))
        work = {"ms": 1e3 * (process_time() - start), "updates": int(output.ponder.steps.sum())}
        work |= {"rounds": int(output.ponder.rounds)} | simulate(circuit, values, awake)
        yield work | {"right": output.logits.argmax(1).tolist() == values}
        circuit, node = change(circuit, what, random)
        layout = layout_of(circuit) if what == "wire" else layout
        where = {"edges_into" if what == "wire" else "changed": torch.tensor([node])}
        call, awake = partial(model.resume, output.ponder, **where), {node}


@torch.no_grad()
def time_every_gate(model: Any, circuit: Circuit, rounds: int) -> float:
    """Return the time, in ms, of rounds in which every gate computes."""
    rule, timed = model.evaluation_rule, min(rounds, 20)
    model.evaluation_rule, model.max_steps = FixedDepth(), timed
    start = process_time()
    model(layout_of(circuit), torch.from_numpy(circuit.kinds))
    model.evaluation_rule = rule
    return 1e3 * (process_time() - start) * rounds / timed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", help="folder of a run of tasks/circuits.py with the preset waking")
    parser.add_argument("circuits", nargs="+", help="such as adder-512, c6288 or my.v")
    parser.add_argument("--changes", type=int, default=100, help="of each kind (default: 100)")
    parser.add_argument("--kinds", nargs="+", default=CHANGES, choices=CHANGES)
    parser.add_argument("--results", default=TABLE, help="CSV file (default: circuits.csv here)")
    options = parser.parse_args()
    run = Run.open(options.run)
    model = run.trained_model(torch.device("cpu")).eval()
    for name in options.circuits:
        circuit = find_circuit(name)
        size, bits = len(circuit.kinds), np.random.default_rng(0)
        rule = replace(model.evaluation_rule, max_rounds=4 * size + 100)
        model.evaluation_rule = rule
        kinds = circuit.with_bits(bits.integers(0, 2, len(circuit.inputs), np.int8))
        circuit = replace(circuit, kinds=kinds)
        for what in options.kinds:
            works = follow(model, circuit, what)
            start = next(works)
            found = [work for work, _ in zip(works, range(options.changes), strict=False)]
            row: dict[str, Any] = {"circuit": name, "nodes": size, "change": what}
            row |= {"levels": int(circuit.levels.max()), "changes": len(found)}
            row |= {f"start_{key}": value for key, value in start.items()}
            row |= {key: fmean(work[key] for work in found) for key in found[0]}
            row["every_gate_ms"] = time_every_gate(model, circuit, int(start["rounds"]))
            print(row, flush=True)
            machine = describe_machine(torch.device("cpu"))
            append_rows(options.results, [{**row, "seed": run.training.seed, **machine}])


if __name__ == "__main__":
    main()
