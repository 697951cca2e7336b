"""Every example runs, at a small size."""

import re
import runpy
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import graphut
from graphut.experiments.cli import main
from graphut.experiments.tasks import Copy, Sort
from graphut.experiments.training import TrainingConfig
from graphut.models import UniversalGraphTransformer, UniversalGraphTransformerConfig
from graphut.topology import registry
from tests.conftest import DATA

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # of PyG
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
ONE_EPOCH = TrainingConfig(epochs=1)


def load(name: str, folder: str = "") -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES[0].parent / folder / f"{name}.py"))


def run(name: str, *argv: str) -> object:
    """Run an example as a program, and return its exit status."""
    example = str(EXAMPLES[0].with_name(f"{name}.py"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "argv", [example, *argv])
        patched.syspath_prepend(EXAMPLES[0].parent)  # as `python` does
        try:
            runpy.run_path(example, run_name="__main__")
        except SystemExit as ended:
            return ended.code
        finally:
            registry.registry.pop("powers", None)  # defined anew by each run
    return 0


@pytest.mark.parametrize("name", [path.stem for path in EXAMPLES])
def test_example_prints_help(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(name, "--help") == 0
    assert capsys.readouterr().out.startswith(f"usage: {name}.py ")
    assert not list(tmp_path.iterdir())


def test_hugging_face_trainer_resumes_exactly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("transformers")
    example = load("hugging_face_trainer")
    whole, folder = tmp_path / "whole", tmp_path / "resumed"
    model = example["main"](str(whole), epochs=2, number=128)
    assert capsys.readouterr().out.splitlines()[-2].startswith("validation loss ")
    shutil.copytree(whole / "checkpoint-2", folder / "checkpoint-2")
    again = example["main"](str(folder), epochs=2, number=128)
    for name, value in graphut.load(folder).state_dict().items():
        assert torch.equal(model.state_dict()[name], value), name
    assert again.output.weight is again.embedding.weight


@pytest.mark.filterwarnings("ignore:Dataloader CPU affinity")
def test_sampled_blocks(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("sampled_blocks", "--nodes", "2000", "--seeds", "600", "--epochs", "1") == 0
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("epoch 1: ") and line.endswith(" steps")


def test_train_copy(capsys: pytest.CaptureFixture[str]) -> None:
    load("train_copy")["main"](Copy(mean_length=3, epoch_size=64, held_out=4), epochs=2)
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["epoch 1", "epoch 2", "test"]


def test_train_sort_resumes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example, task = load("train_sort"), Sort(mean_length=3, epoch_size=64, held_out=4)
    example["main"](task, ONE_EPOCH, str(tmp_path))
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2].startswith("test: ") and lines[-1].startswith("quickly -> ")
    example["main"](task, ONE_EPOCH, str(tmp_path))
    again = capsys.readouterr().out.splitlines()
    assert again[0].startswith("resumed after 1 epoch and 1 update")
    assert again[-2:] == lines[-2:]


def test_custom_topology(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = Sort(mean_length=3, epoch_size=64, held_out=4)
    load("custom_topology")["main"](task, ONE_EPOCH, str(tmp_path / "run"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "202 edges among 24 tokens, diameter 3" and lines[-1].startswith("test: ")
    assert (tmp_path / "run" / "powers.png").read_bytes().startswith(b"\x89PNG")
    mask = registry.registry["powers"]().mask(9)
    assert mask[0].nonzero().flatten().tolist() == [0, 1, 2, 4, 8]
    assert mask[5].nonzero().flatten().tolist() == [1, 3, 4, 5, 6, 7]


def test_wave_has_a_frame_for_each_round(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = str(tmp_path / "run"), tmp_path / "wave.gif"
    tiny = ["--epochs", "1", "--epoch-size", "32", "--held-out", "4", "--test-sizes", ""]
    assert main(["train", "graph-distance", "--preset", "waking", "--out", folder, *tiny]) == 0
    capsys.readouterr()
    assert run("wave", folder, "--side", "3", "--out", str(out)) == 0
    accuracy, rounds = capsys.readouterr().out.splitlines()
    assert accuracy.startswith("node accuracy ") and rounds.endswith(("True", "False"))
    with Image.open(out) as picture:
        assert picture.n_frames == min(int(rounds.split()[0]), 36) + 1


def test_stream_edges_updates_fewer_nodes_than_a_new_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(0)
    config = UniversalGraphTransformerConfig(
        num_kinds=2, classes=2, d_model=16, d_hidden=16, adaptive=False, step_signal="none",
        inject_input=True, evaluation_rule="event_driven:tol=0.3",
    )  # fmt: skip
    UniversalGraphTransformer(config).save_pretrained(tmp_path)
    assert run("stream_edges", str(tmp_path), "--trees", "4", "--size", "30") == 0
    start, *streamed, removed = capsys.readouterr().out.splitlines()
    assert start.startswith("start: ") and "removed: " in removed
    for line in streamed:
        resumed, anew = (int(count) for count in re.findall(r"(\d+) (?:updates|from)", line))
        assert resumed < anew


def test_circuit_wave_draws_flips(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = str(tmp_path / "run"), tmp_path / "wave.png"
    config = UniversalGraphTransformerConfig(
        num_kinds=10, classes=2, d_model=16, d_hidden=16, adaptive=False, step_signal="none",
        inject_input=True, quantize=1, evaluation_rule="event_driven",
    )  # fmt: skip
    torch.manual_seed(0)
    UniversalGraphTransformer(config).save_pretrained(folder)
    assert run("circuit_wave", folder, "adder-4", "--flips", "3", "--out", str(out)) == 0
    size, start, *flips = capsys.readouterr().out.splitlines()
    assert size == "adder-4: 29 gates and inputs, 9 levels"
    assert re.fullmatch(r"new start: \d+ updates of gates in \d+ rounds, \d+ gates wrong", start)
    assert len(flips) == 3 and all("gates change" in line for line in flips)
    assert out.read_bytes().startswith(b"\x89PNG")
    assert run("circuit_wave", folder, "adder-4", "--flips", "0") == 2


@pytest.mark.data
@pytest.mark.parametrize("library", ["dgl", "pyg"])
def test_hetero_papers_and_words_of_cora(library: str, capsys: pytest.CaptureFixture[str]) -> None:
    data = ["--data", str(DATA / "cora" / "cora.npz"), "--library", library]
    small = ["--seeds", "1", "--epochs", "2", "--weights", "0.1"]
    assert run("hetero_papers_and_words", *data, *small) == 0
    assert capsys.readouterr().out.startswith("weight 0.1: test accuracy")


def write_graphs(folder: Path, size: int = 60, num_feats: int = 3) -> None:
    """Write a ring graph in each of the three formats that `node_classification.py` reads."""
    label, nodes = np.arange(size) % 2, np.arange(size)
    masks = np.stack([nodes * 3 // size == part for part in range(3)])[:, None]
    names = ("train_masks", "val_masks", "test_masks")
    feats = {
        "node_features": np.random.default_rng(0).random((size, num_feats)),
        "node_labels": label,
    }
    ring = np.stack([nodes, (nodes + 1) % size], 1)
    np.savez(folder / "a.npz", edges=ring, **feats, **dict(zip(names, masks, strict=True)))
    csr: dict[str, Any] = {
        "feat_indptr": np.arange(size + 1),
        "feat_indices": nodes % 3,
        "num_feats": 3,
    }
    parts = {"train": nodes[:20], "val": nodes[20:40], "test": nodes[40:]}
    ends = {"src": nodes, "dst": (nodes + 1) % size}
    np.savez(folder / "b.npz", label=nodes % 3, **csr, **ends, **parts)
    many = np.arange(1200)
    csr = {"feature_indptr": np.arange(1201), "feature_indices": many % 3, "num_features": 3}
    edges = np.stack([many, (many + 1) % 1200], 1)[:1100]  # a path and single nodes
    csr |= {"feature_values": np.ones(1200), "node_labels": many % 4, "edges": edges}
    np.savez(folder / "c.npz", **csr)


def test_node_classification_trains_every_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch_geometric")
    write_graphs(tmp_path)
    load_graph, models = load("node_classification")["load"], load("node_classification")["MODELS"]
    first, third = load_graph(tmp_path / "a.npz", 0), load_graph(tmp_path / "c.npz", 0)
    assert first.edges.shape == (2, 120) and first.is_binary
    assert len(third.x) == 1101 and third.edges.shape == (2, 2200)
    assert {k: len(x) for k, x in third.parts.items()} == {"train": 80, "val": 500, "test": 521}
    small = [
        *["--epochs", "2", "--width", "8", "--max-steps", "2", "--out"],
        str(tmp_path / "out.csv"),
    ]
    assert run("node_classification", str(tmp_path / "a.npz"), "--models", *models, *small) == 0
    frozen = ["--evaluation-halted", "frozen", *small]
    assert run("node_classification", str(tmp_path), "--models", "adaptive", *frozen) == 0
    assert run("node_classification", str(tmp_path / "a.npz"), "--draw", "a.png", *small) == 2
    assert "--draw needs the cells of a square" in capsys.readouterr().err
    rows = (tmp_path / "out.csv").read_text().splitlines()
    assert len(rows) == 1 + len(models) + 3 and rows[0].startswith("data,split,seed,model,val,test")
    assert rows[-1].startswith("c,0,0,adaptive,")
    assert run("node_classification", str(tmp_path / "a.npz"), "--boards", "9", *small) == 2
    assert "--boards needs the 7 features of cells, got 3" in capsys.readouterr().err


def test_node_classification_draws_new_boards(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch_geometric")
    board = load("node_classification")["new_board"](12, 0)
    assert (
        len(board.label) == 144 and int(board.label.sum()) == 28 and int(board.x[:, 0].sum()) == 72
    )
    assert board.edges.shape == (2, 2 * (2 * 11 * 12 + 2 * 11 * 11))
    mines = torch.zeros(144).index_add(0, board.edges[1], board.label[board.edges[0]].float())
    shown = board.x[:, 0] == 0
    assert torch.equal(board.x[shown].argmax(1) - 1, mines[shown].clamp(max=5).long())
    masks = {f"{part}_masks": np.ones((1, 144), bool) for part in ("train", "val", "test")}
    graph = {"node_features": board.x, "node_labels": board.label, "edges": board.edges.T}
    np.savez(tmp_path / "mines.npz", **graph, **masks)
    options = ["--models", "adaptive", "--epochs", "2", "--boards", "6", "9", "--out", "out.csv"]
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        assert run("node_classification", "mines.npz", *options, "--draw", "mines.png") == 0
        assert run("node_classification", "mines.npz", "--time", *options[:4]) == 0
    assert re.search(r"frozen: \S+ s, running: \S+ s$", capsys.readouterr().out.strip())
    rows = (tmp_path / "out.csv").read_text().splitlines()
    assert [row.partition(",")[0] for row in rows[1:]] == ["mines", "board-6", "board-9"]
    assert (tmp_path / "mines.png").read_bytes().startswith(b"\x89PNG")


def test_auc_of_equal_scores() -> None:
    pytest.importorskip("torch_geometric")
    auc = load("node_classification")["auc"]
    scores, label = torch.tensor([0.1, 0.4, 0.4, 0.8]), torch.tensor([0, 0, 1, 1])
    assert auc(scores, label) == 0.875


def test_shortest_paths_are_exact(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("shortest_paths", "--updates", "40", "--graphs", "1") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "seed 0: the register is the smallest sum"
    assert len(lines) == 19 and all("-inf" in line or "error 0" in line for line in lines[1:])


def test_own_graphs_compares_and_predicts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ring, turned = [0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]
    arrays = {"src": ring + turned, "dst": turned + ring, "feat_indptr": range(7), "num_feats": 2}
    arrays |= {"feat_indices": [0, 1] * 3, "label": [0, 1] * 3}
    arrays |= {"train": [0, 1], "val": [2, 3], "test": [4, 5]}
    np.savez(tmp_path / "tiny.npz", **arrays)
    words = ["--data", str(tmp_path / "tiny.npz"), "--out", str(tmp_path / "out"), "--seeds", "1"]
    more = ["--options", "--epochs 1 --d-model 8 --d-hidden 8 --num-heads 2"]
    assert run("own_graphs", "values", *words, *more) == 0
    said = capsys.readouterr().out
    assert "read 1 graph, " in said and "GATConv: mean " in said and "graphut: mean " in said
    assert (tmp_path / "out" / "values.csv").read_text().startswith("graph,node,")
    assert run("own_graphs", "values", *words) == 2
    assert "is not empty" in capsys.readouterr().err
