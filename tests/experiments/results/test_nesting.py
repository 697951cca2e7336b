from __future__ import annotations

from graphut.experiments.results.nesting import nesting_table
from tests.experiments.results.tiny import PAIRS, cells, make_record


def rows(*accuracies: float) -> list[dict[str, float]]:
    return [
        {**PAIRS, "from": n, "to": n, "examples": 4, "sequence_accuracy": accuracy}
        for n, accuracy in enumerate(accuracies, 1)
    ]


def test_nesting_table_has_means_of_seeds_by_nesting() -> None:
    data = {"data": "DATA/listops"}
    runs = [
        make_record("listops", options=data, seed=seed, test={**PAIRS, "by_nesting": rows(*own)})
        for seed, own in enumerate([(1.0, 0.5), (1.0, 0.25, 0.125)])
    ]
    runs.append(make_record("listops", "fixed", data, test=PAIRS))  # judged by an older version
    assert cells(nesting_table(runs)) == [
        ["model", "test set", "1", "2", "3"],
        ["small", "test", "1.000 at 1.00, 2.00", ".375 at 1.00, 2.00", ".125 at 1.00, 2.00"],
    ]
