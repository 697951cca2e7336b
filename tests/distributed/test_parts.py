import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist

from graphut.distributed import assign_parts, cut_graph, load_part, write_parts
from tests.experiments.training.together import run_together
from tests.helpers import refuses

EDGES = np.array([[0, 1, 2, 3, 4, 5, 0, 5], [1, 2, 3, 4, 5, 0, 3, 2]])


@pytest.mark.parametrize("method", ["metis", "random", "contiguous"])
@pytest.mark.parametrize("parts", [1, 2, 3, 6])
def test_assign_parts_leaves_no_part_empty(method: str, parts: int) -> None:
    assert sorted(set(assign_parts(EDGES, 6, parts, method))) == [*range(parts)]


def test_assign_parts_by_metis_cuts_few_edges() -> None:
    ring = np.stack([np.arange(100), (np.arange(100) + 1) % 100])
    part_of = assign_parts(ring, 100, 2)
    assert (part_of[ring[0]] != part_of[ring[1]]).sum() <= 10  # a random cut: 50
    assert abs(int(part_of.sum()) - 50) <= 5


def test_assign_parts_refuses() -> None:
    refuses(
        "parts must be at least 1 and at most 6 nodes, got 7", assign_parts, EDGES, 6, 7, "metis"
    )
    refuses("method must be .*, got 'x'", assign_parts, EDGES, 6, 2, "x")


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


def test_write_parts_and_load_part(tmp_path: Path) -> None:
    def check() -> None:
        for name in ("two", "other"):
            part = load_part(tmp_path / name)
            assert torch.equal(part.nodes, parts[name][dist.get_rank()].nodes)
            assert part.arrays["names"].tolist() == [f"n{node}" for node in part.nodes.tolist()]
            assert part.layout.num_dst == len(part.nodes)
        mixed = load_part(tmp_path / ("two", "other")[dist.get_rank()])
        refuses("parts of the processes are not of one graph, or", getattr, mixed, "layout")
        with pytest.raises(ValueError, match="3 parts, but the number of processes is 2"):
            load_part(tmp_path / "three").layout  # noqa: B018
        if dist.get_rank() == 1:
            with pytest.raises(
                FileNotFoundError, match=r"process 1 has no part in .*one: part-1 is"
            ):
                load_part(tmp_path / "one")

    names = np.array([f"n{node}" for node in range(6)])
    cuts = {"one": [0] * 6, "two": [0, 0, 1, 1, 1, 0], "other": [0, 1, 1, 1, 1, 0]}
    cuts["three"] = [0, 1, 2, 2, 1, 0]
    parts = {}
    for name, part_of in cuts.items():
        write_parts(tmp_path / name, EDGES, np.array(part_of), {"names": names})
        parts[name] = [*cut_graph(EDGES, np.array(part_of))]
    assert load_part(tmp_path / "one").layout.halo is None
    with pytest.raises(FileExistsError, match=r"one is not empty, it has"):
        write_parts(tmp_path / "one", EDGES, np.zeros(6, np.int64))
    run_together(check, tmp_path)


def test_load_part_refuses_damaged_files(tmp_path: Path) -> None:
    folder = write_parts(tmp_path / "one", EDGES, np.zeros(6, np.int64))
    (folder / "part-0" / "nodes.npy").write_bytes(b"x")
    refuses(r"nodes.npy is not a .npy file", load_part, folder)
    (folder / "part-0" / "nodes.npy").unlink()
    refuses("part-0 is damaged: KeyError", load_part, folder)
    shutil.rmtree(folder / "part-0")
    with pytest.raises(FileNotFoundError, match="process 0 has no part in"):
        load_part(folder)
