from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from graphut.experiments.records.record import without_folders
from graphut.experiments.tasks.circuit_simulate import CircuitSimulate, find_circuit
from graphut.experiments.tasks.circuits import KINDS, adder
from tests.helpers import refuses

SIZES = {"epoch_size": 30, "held_out": 20, "vectors": 3}


def test_circuit_simulate_depends_on_options_seed_and_epoch_alone() -> None:
    one, other = CircuitSimulate(**SIZES), CircuitSimulate(**SIZES)
    for first, second in zip(one.train(1, 2), other.train(1, 2), strict=True):
        assert all(map(np.array_equal, first[:4], second[:4]))
    drawn = [[graph.nodes.tolist() for graph in one.train(1, epoch)] for epoch in (2, 3)]
    assert drawn[0] != drawn[1] and [*map(len, drawn)] == [30, 30]
    assert len(one.validation) == len(one.test) == 20


def test_circuit_simulate_draws_circuits_within_the_options(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = CircuitSimulate(gates="10-30", levels=9, **SIZES)
    for graph in task.train(0, 0):
        assert graph.depth is not None and 10 <= len(graph.nodes) <= 30 and graph.depth.max() <= 9
        assert graph.labels[graph.nodes < 2].tolist() == graph.nodes[graph.nodes < 2].tolist()
        loops = graph.edges[:, -len(graph.nodes) :]
        assert (loops[0] == loops[1]).all() and (graph.edges[0] <= graph.edges[1]).all()
    graphs = CircuitSimulate(gates="8,20", **SIZES).train(0, 0)
    assert {len(graph.nodes) for graph in graphs} == {8, 20}
    monkeypatch.setattr("graphut.experiments.tasks.circuit_simulate._TRIES", 50)
    with pytest.raises(ValueError, match="circuits of 100-100 nodes have more than 20 levels: "):
        CircuitSimulate(gates="100-100", held_out=5).test  # noqa: B018


def test_circuit_simulate_has_a_test_set_for_each_circuit() -> None:
    task = CircuitSimulate(test_circuits="adder-8, sqrt-6", **SIZES)
    sets = task.test_sets
    assert [*sets] == ["test", "adder-8", "sqrt-6"]
    graphs, circuit = sets["adder-8"], adder(8)
    assert len(graphs) == 3 and {graph.group for graph in graphs} == {"adder-8"}
    for graph in graphs:
        bits = graph.nodes[circuit.inputs].astype(np.int8)
        assert np.array_equal(graph.labels, circuit.simulate(bits[None])[0])
    assert len({tuple(graph.nodes) for graph in graphs}) == 3
    again = CircuitSimulate(test_circuits="adder-8", **SIZES).test_sets["adder-8"]
    assert all(np.array_equal(one.nodes, two.nodes) for one, two in zip(graphs, again, strict=True))


def test_circuit_simulate_finds_circuits_of_files_and_of_the_package(tmp_path: Path) -> None:
    pytest.importorskip("circuitgraph")
    path = tmp_path / "mine.v"
    path.write_text("module mine (a, y);\ninput a; output y;\nnot g1 (y, a);\nendmodule\n")
    task = CircuitSimulate(test_circuits=f"c17,{path}", **SIZES)
    sets = task.test_sets
    assert [*sets] == ["test", "c17", "mine"]
    assert (len(sets["c17"][0].nodes), len(sets["mine"][0].nodes)) == (11, 2)
    assert [KINDS[graph.nodes[1]] for graph in task.read(str(path))] == ["not"] * 3


def test_circuit_simulate_reads_the_whole_package(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "graphut.experiments.tasks.circuit_simulate"
    monkeypatch.setattr(f"{module}.library_circuits", lambda: ["c17", "c432"])
    monkeypatch.setattr(f"{module}.library_circuit", lambda name: adder(int(name[1:])))
    task = CircuitSimulate(test_circuits="adder-2,circuitgraph,sqrt-4", **SIZES)
    assert [*task.test_sets] == ["test", "adder-2", "c17", "c432", "sqrt-4"]


def test_circuit_simulate_refuses_test_sets_of_the_same_name() -> None:
    for names in ("a/c.v,b/c.v", "adder-2,test.v"):
        with pytest.raises(ValueError, match="test_circuits must be files of different names,"):
            CircuitSimulate(test_circuits=names, **SIZES).check_files()


def test_circuit_simulate_checks_names_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("graphut.experiments.tasks.netlists._circuitgraph", pytest.fail)
    CircuitSimulate(test_circuits="adder-8, sqrt-6").check_files()  # without the package
    with pytest.raises(ValueError, match="adder-x: 'x' must be a number of bits"):
        CircuitSimulate(test_circuits="adder-x").check_files()
    monkeypatch.undo()
    pytest.importorskip("circuitgraph")
    for name, error in (("ader-8", ValueError), ("mine.v", FileNotFoundError)):
        with pytest.raises(error, match=name):
            CircuitSimulate(test_circuits=name).check_files()


def test_circuit_simulate_keeps_absolute_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    task = CircuitSimulate(test_circuits="mine.v, adder-8")
    assert task.test_circuits == f"{tmp_path / 'mine.v'},adder-8" and not task.paths
    assert without_folders(asdict(task))["test_circuits"] == "DATA/mine.v,adder-8"


def test_circuit_simulate_refuses_wrong_options() -> None:
    message = "gates must be whole numbers of 3 or more, as in '3,5-7'.*; got '2-4'"
    refuses(message, CircuitSimulate, gates="2-4")
    for name in ("adder-", "adder-x", "adder-0"):
        refuses(f"{name}: .* must be a number of bits, as in adder-8", find_circuit, name)
