from pathlib import Path
from random import Random

import numpy as np
import pytest

from graphut.experiments.tasks import LabelledGraph, Pair
from graphut.experiments.tasks.listops import ListOps, ListOpsTree, draw_expression, parse, tree_of


def value_of(symbols: list[str]) -> int:
    """What an expression comes to, with a stack."""
    stack: list[list[str]] = [[]]
    for symbol in symbols:
        if symbol.startswith("["):
            stack.append([symbol])
        elif symbol == "]":
            operator, *texts = stack.pop()
            values = sorted(map(int, texts))
            middle = (values[(len(values) - 1) // 2] + values[len(values) // 2]) // 2
            results = {"[MIN": values[0], "[MAX": values[-1], "[MED": middle, "[SM": sum(values)}
            stack[-1].append(str(results[operator] % 10))
        else:
            stack[-1].append(symbol)
    [[text]] = stack
    return int(text)


def symbols_of(task: ListOps, pairs: list[Pair]) -> list[tuple[list[str], int]]:
    return [
        (task.source_vocabulary.decode(source), int(*task.target_vocabulary.decode(target)))
        for source, target in pairs
    ]


def all_of(task: ListOps) -> list[Pair]:
    return task.train(0, 0) + task.validation + task.test


def test_list_ops_every_expression_comes_to_its_target() -> None:
    task = ListOps(train_size=500, held_out=50)
    assert [len(part) for part in (task.train(0, 0), task.validation, task.test)] == [500, 50, 50]
    assert len({tuple(source) for source, _ in all_of(task)}) == 600
    for symbols, value in symbols_of(task, all_of(task)):
        assert value_of(symbols) == value


@pytest.mark.parametrize("name", ["official-d20s", "official-d20a"])
def test_list_ops_every_official_expression_comes_to_its_target(
    name: str, listops_folder: Path
) -> None:
    task = ListOps(listops_folder, train_size=10)
    official = symbols_of(task, task.test_sets[name])
    assert len(official) == 10_000
    assert all(value_of(symbols) == value for symbols, value in official)
    assert ("[SM" in {symbol for symbols, _ in official for symbol in symbols}) == (name[-1] == "s")


def test_list_ops_no_official_expression_is_trained_on(listops_folder: Path) -> None:
    task = ListOps(listops_folder, train_size=3000)
    drawn = {tuple(source) for source, _ in all_of(task)}
    sets = task.test_sets
    for name in ("official-d20s", "official-d20a"):
        assert drawn.isdisjoint(tuple(source) for source, _ in sets[name])
    free = {tuple(source) for source, _ in ListOps(train_size=3000).train(0, 0)}
    assert not free.isdisjoint(tuple(source) for source, _ in sets["official-d20s"])


def test_list_ops_the_lengths_are_those_of_the_official_expressions(listops_folder: Path) -> None:
    """Deciles; with fewer expressions more of the short ones are distinct."""
    task = ListOps(listops_folder, train_size=30_000)
    official = sorted(len(source) for source, _ in task.test_sets["official-d20s"])
    drawn = sorted(len(source) for source, _ in task.train(0, 0))
    for tenth in range(1, 10):
        length, expected = (lengths[len(lengths) * tenth // 10] for lengths in (drawn, official))
        assert abs(length - expected) <= max(2, 0.1 * expected)


def test_list_ops_sizes() -> None:
    task = ListOps(longest=12, train_size=300, held_out=20)
    expressions = [symbols for symbols, _ in symbols_of(task, all_of(task))]
    assert max(map(len, expressions)) == 12
    drawn = [
        *map(task.source_vocabulary.encode, (draw_expression(Random(s), 3)[0] for s in (0, 1)))
    ]
    assert max(map(task.source_vocabulary.nesting, drawn)) == 2  # digits are one level deeper
    assert {symbol for symbols in expressions for symbol in symbols} >= {"[MIN", "[SM", "0", "9"}


def test_list_ops_refuses_too_few_expressions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphut.experiments.tasks.listops._TRIES", 3)
    with pytest.raises(ValueError, match="fewer than 420 expressions of up to 4 symbols: increase"):
        ListOps(longest=4, train_size=400, held_out=10).test  # noqa: B018
    with pytest.raises(ValueError, match=r"got '7 \[MAX 7 \]'"):
        parse("7 [MAX 7 ]")


def value_in_tree(graph: LabelledGraph, node: int) -> tuple[int, int]:
    """The value of a node of a tree, and how deep lists are nested in it."""
    symbol = ListOpsTree.node_kinds.symbols[graph.nodes[node]]
    inner = [s for s, target in graph.edges.T.tolist() if target == node and s != node]
    if not inner:
        return int(symbol), 0
    values, depths = zip(*(value_in_tree(graph, child) for child in inner), strict=True)
    return value_of([symbol, *map(str, values), "]"]), 1 + max(depths)


def test_listops_tree_has_the_values_and_the_nesting_of_the_expressions() -> None:
    sizes = {"train_size": 30, "held_out": 10, "longest": 60}
    task, plain = ListOpsTree(**sizes), ListOps(**sizes)
    for part in ("train", "validation", "test"):
        for graph, (source, target) in zip(task.load(part), plain.load(part), strict=True):
            nodes = [value_in_tree(graph, node) for node in range(len(graph.nodes))]
            values, depths = map(list, zip(*nodes, strict=True))
            assert task.answers.symbols[graph.labels[0]] == str(values[0])
            assert plain.target_vocabulary.decode(target) == [str(values[0])]
            labels = values if part == "train" else [values[0], *[-1] * (len(values) - 1)]
            assert graph.labels.tolist() == labels
            closing = plain.source_vocabulary.decode(source).count("]")
            assert len(graph.nodes) == len(source) - closing
            assert graph.edges.shape == (2, 2 * len(graph.nodes) - 1)
            assert graph.depth is not None and graph.depth.tolist() == depths
    for each in (task, plain):  # a run loads vocabularies of this kind
        assert {type(symbols) for symbols in each.vocabularies.values()} == {each.vocabulary_kind}


def test_listops_tree_of_a_digit_is_one_node() -> None:
    source, _ = parse("7\t7")
    tree = tree_of(source)
    assert tree.edges.tolist() == [[0], [0]] and tree.edges.dtype == np.int64
    assert (tree.nodes.tolist(), tree.labels.tolist()) == ([7], [7])


def test_listops_tree_of_the_official_files(listops_folder: Path) -> None:
    task = ListOpsTree(data=listops_folder, train_size=1, held_out=1)
    assert [*task.test_sets] == ["test", "official-d20s", "official-d20a"]
    graph = task.test_sets["official-d20s"][0]
    assert task.answers.symbols[graph.labels[0]] == str(value_in_tree(graph, 0)[0])
