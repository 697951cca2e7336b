from pathlib import Path

import numpy as np
import pytest
import torch

from graphut.distributed import Part, cut_graph
from tests.helpers import refuses

EDGES = np.array([[0, 1, 2, 3, 4, 5, 0, 5], [1, 2, 3, 4, 5, 0, 3, 2]])


def test_cut_graph_divides_nodes_and_edges() -> None:
    part_of, names = np.array([1, 0, 0, 2, 1, 2]), np.arange(6) * 10
    parts = [*cut_graph(EDGES, part_of, {"names": names}, {"numbers": np.arange(8)})]
    assert torch.cat([part.nodes for part in parts]).tolist() == [1, 2, 0, 4, 3, 5]
    numbers = [int(number) for part in parts for number in part.arrays["numbers"]]
    assert sorted(numbers) == [*range(8)]
    for part in parts:
        ids = torch.cat([part.nodes, part.halo_nodes])
        assert torch.equal(ids[part.edges], torch.from_numpy(EDGES[:, part.arrays["numbers"]]))
        owners = torch.from_numpy(part_of)[part.halo_nodes]
        assert torch.equal(owners, torch.repeat_interleave(part.halo_sizes))
        assert part.arrays["names"].tolist() == (part.nodes * 10).tolist()


def test_part_is_saved_and_loaded(tmp_path: Path) -> None:
    names = np.array([f"n{node}" for node in range(6)])
    for part in cut_graph(EDGES, np.array([0, 0, 1, 1, 1, 0]), {"names": names}):
        part.save(tmp_path / "part.npz")
        found = Part.load(tmp_path / "part.npz")
        for name in ("nodes", "halo_nodes", "halo_sizes", "edges"):
            assert torch.equal(getattr(found, name), getattr(part, name))
        assert found.num_nodes == 6
        assert found.arrays["names"].tolist() == part.arrays["names"].tolist()
        with pytest.raises(ValueError, match="2 parts, but the number of processes is 1"):
            found.layout  # noqa: B018
    (tmp_path / "part.npz").write_bytes(b"x")
    refuses(r"part.npz is damaged", Part.load, tmp_path / "part.npz")
    [whole] = cut_graph(EDGES, np.zeros(6, np.int64))
    assert whole.layout.halo is None
