from __future__ import annotations

from pathlib import Path

import numpy as np

from graphut.experiments.tasks import Vocabulary
from graphut.experiments.tasks.graph_arrays import read_arrays
from graphut.experiments.tasks.raw_graph import keep_labels


def test_keep_labels_removes_labels_of_either_form(tmp_path: Path) -> None:
    np.save(tmp_path / "edges.npy", [[0, 1, 2], [1, 2, 0]])
    files = [tmp_path / "edges.npy", tmp_path / "labels.npy"]
    np.save(files[1], [4, 5, 4])
    [graph] = read_arrays(files, "class")
    kinds = Vocabulary(["node"])
    found = keep_labels(graph.labelled(kinds, Vocabulary("45")), np.array([1, 0, 0], bool))
    assert found.labels.tolist() == [0, -1, -1] and found.has_label.tolist() == [True, False, False]
    [graph] = read_arrays(files, "values")
    found = keep_labels(graph.labelled(kinds, Vocabulary("0")), np.array([0, 1, 0], bool))
    np.testing.assert_array_equal(found.labels, [[np.nan], [5], [np.nan]])
    assert graph.labelled(kinds, None).has_label.tolist() == [False] * 3
