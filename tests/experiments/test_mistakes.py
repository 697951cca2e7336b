from pathlib import Path

import networkx
import pytest

from graphut.experiments.cli import main
from graphut.experiments.mistakes import worst_examples, wrong_choices
from graphut.experiments.training import Run
from tests.experiments.cli.tiny import MODEL


def test_mistakes_of_a_graph_name_nodes_and_classes(tmp_path: Path) -> None:
    graph = networkx.relabel_nodes(networkx.path_graph(30), lambda node: f"person {node}")
    for number, (_, data) in enumerate(graph.nodes(data=True)):
        data.update(label=["low", "high"][number % 3 == 0], feat=f"{number % 2}, 1")
        data.update(train_mask=number < 6, val_mask=6 <= number < 10, test_mask=number >= 10)
    networkx.write_graphml(graph, path := tmp_path / "graph.graphml")
    assert main(["train", "graphs", "--data", str(path), "--out", str(tmp_path / "a"), *MODEL]) == 0
    run = Run.open(tmp_path / "a")
    model = run.model()
    [answer] = run.learner(model).answers(run.task().test)
    assert [choice.name for choice in answer.choices] == [f"person {n}" for n in range(10, 30)]
    [found] = model.predict(graph)
    for number, choice in enumerate(answer.choices, 10):
        shares = dict(zip(model.class_names, found.probabilities[number].tolist(), strict=True))
        assert (choice.label, choice.predicted) == (
            ["low", "high"][number % 3 == 0], found.labels[number]
        )  # fmt: skip
        assert choice.probability == pytest.approx(shares[choice.predicted])
        assert choice.label_probability == pytest.approx(shares[choice.label], abs=1e-5)
        assert choice.steps == found.steps[number]
    wrong = [choice for choice in answer.choices if choice.label != choice.predicted]
    assert answer.score == 1 - len(wrong) / 20
    confusion, *rest = wrong_choices([(1, choice) for choice in answer.choices])
    counts = {row[0]: dict(zip(confusion.head[1:], row[1:], strict=True)) for row in confusion.rows}
    assert sum(sum(row.values()) for row in counts.values()) == 20
    assert sum(row.get(f"answer {label}", 0) for label, row in counts.items()) == 20 - len(wrong)
    [table] = rest
    assert [row[1] for row in table.rows] == [
        choice.name for choice in sorted(wrong, key=lambda choice: -choice.probability)
    ]


def test_mistakes_of_sequences_are_the_ten_worst() -> None:
    rows = [[abs(n - 7) / 20, f"text {n}", "a", "b"] for n in range(1, 21)]
    [table] = worst_examples(rows)
    assert table.caption == "Worst answers, 10 of 20"
    assert [row[0] for row in table.rows] == [7, 6, 8, 5, 9, 4, 10, 3, 11, 2]
    assert table.rows[0][1:] == rows[6]
    assert not [*worst_examples([[1.0, "text", "a", "a"]])]
