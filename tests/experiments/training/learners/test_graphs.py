from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import networkx
import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from graphut._files import read_json
from graphut.experiments.cli import main, show
from graphut.experiments.tasks import LabelledGraph, Vocabulary
from graphut.experiments.tasks.graph_problems import GraphBFS, GraphDistance
from graphut.experiments.training.learners import graph_scores
from graphut.experiments.training.learners.graph_batch import GraphBatch, step_losses
from graphut.experiments.training.learners.graph_scores import (
    needed_flops,
    score_graphs,
    until_quiescent,
)
from graphut.experiments.training.learners.graphs import GraphLearner
from graphut.experiments.wording import flag
from graphut.models import UniversalGraphTransformer
from graphut.nn import AdaptiveRecurrence, EventDriven, FixedDepth, ScheduledHalting
from tests.experiments.training.learners.small_models import small_model
from tests.nn.cases import build_step

LEARNER = GraphLearner()
TASKS: dict[str, Any] = {
    "node": GraphDistance(held_out=7, test_sizes="", sizes="3-9", families="near,path"),
    "edge": GraphBFS(held_out=7, test_sizes="", sizes="3-9"),
}
TINY = (
    "--d-model 8 --num-heads 2 --d-hidden 8 --max-steps 3 --epochs 2 --batch-size 8 --device cpu "
)
TINY += "--ponder-warmup 0"
SMALL = "--epoch-size 16 --held-out 4 --sizes 3-6 --test-sizes 12 --test-nodes 24"


make_model = partial(small_model, LEARNER)


def whole(graphs: list[LabelledGraph]) -> list[LabelledGraph]:
    """The same graphs, each with one label in place of those of its nodes."""
    return [graph._replace(labels=graph.labels[:1]) for graph in graphs]


def alone(model: UniversalGraphTransformer, graph: LabelledGraph) -> tuple[list[float], list[bool]]:
    """Log-probabilities of the right answers of a graph, and if they are given, one by one."""
    batch = GraphBatch.of([graph], model.config.answer_at)
    with torch.no_grad():
        logits = model.eval()(batch.layout, batch.nodes).logits
    if model.config.answer_at != "edge":
        likely = logits.log_softmax(-1)
        asked = [
            (row, label) for row, label in zip(likely, graph.labels, strict=True) if label >= 0
        ]
        return [float(row[y]) for row, y in asked], [int(row.argmax()) == y for row, y in asked]
    found, right = [], []
    for node in range(len(graph.nodes)):
        edges = [e for e, target in enumerate(graph.edges[1]) if target == node]
        shares = {e: float(logits[e].exp()) for e in edges}
        found.append(np.log(sum(shares[e] for e in edges if graph.labels[e])))
        right.append(bool(graph.labels[max(shares, key=shares.__getitem__)]))
    return found, right


def test_sizes_are_those_of_the_task() -> None:
    assert LEARNER.sizes(TASKS["node"]) == {
        "num_kinds": 2, "num_feats": 0, "classes": 2, "answer_at": "node",
    }  # fmt: skip
    assert LEARNER.sizes(TASKS["edge"])["classes"] == 0
    assert set(LEARNER.sizes(TASKS["node"])) == set(LEARNER.from_task)


@pytest.mark.parametrize("answer_at", ["node", "edge", "graph"])
def test_outcome_and_scores_equal_graphs_one_by_one(
    answer_at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_scores, "_BATCH_NODES", 20)
    task = TASKS["edge" if answer_at == "edge" else "node"]
    graphs = whole(task.test) if answer_at == "graph" else task.test
    model = make_model(task, answer_at=answer_at)
    found = [alone(model, graph) for graph in sorted(graphs, key=lambda graph: len(graph.nodes))]
    likely, right = ([x for own in column for x in own] for column in zip(*found, strict=True))
    outcome = LEARNER.outcome(model, graphs, 0.0)
    assert outcome.loss.item() == pytest.approx(-np.mean(likely), abs=1e-5)
    assert (int(outcome.right), outcome.labels) == (sum(right), len(right))
    scores = score_graphs(model, graphs)
    asked = ~np.isnan(scores.right)
    assert scores.right[asked].tolist() == right
    assert scores.log_probability[asked].tolist() == pytest.approx(likely, abs=1e-5)
    metrics = scores.metrics()
    assert metrics["accuracy"] == pytest.approx(np.mean(right))
    assert metrics["graph_accuracy"] == pytest.approx(np.mean([all(own[1]) for own in found]))


@pytest.mark.parametrize("answer_at", ["node", "edge", "graph"])
@pytest.mark.parametrize("rule", ["fixed", "act", "ponder_net:threshold=0.9"])
@pytest.mark.parametrize("step_loss", ["mean", "weighted"])
def test_step_losses_equal_sums_over_nodes(answer_at: str, rule: str, step_loss: str) -> None:
    task = TASKS["edge" if answer_at == "edge" else "node"]
    graphs = whole(task.test) if answer_at == "graph" else task.test
    options = {"answer_at": answer_at, "rule": rule, "step_loss": step_loss, "max_steps": 4}
    model = make_model(task, **options, halting_loss=0.5)
    model.train()
    model.encoder.halting.linear.weight.data.mul_(3)
    batch = GraphBatch.of(graphs, answer_at)
    output = batch.run(model, get_steps=True)
    assert output.steps is not None
    now, weight, losses, halting = output.steps[0].states.clone(), 0.0, 0.0, 0.0
    graph_of_node = torch.repeat_interleave(batch.layout.dst_lengths)
    for rows in output.steps:
        now = now.clone()
        now[rows.nodes] = rows.states
        loss, right = batch.judge(model, model.read_out(batch.layout, now))
        for node, share, p in zip(rows.nodes, rows.weights, rows.probability, strict=True):
            answer = graph_of_node[node] if answer_at == "graph" else node  # all are asked
            losses = losses + loss[answer] * (share if step_loss == "weighted" else 1)
            weight = weight + share.item()
            halting = halting - (p if right[answer] else 1 - p).log()
    nodes = len(graph_of_node)
    assert weight == pytest.approx(nodes, rel=1e-4)  # the weights of a node sum to 1
    losses = losses / (nodes if step_loss == "weighted" else nodes * 4)
    found = LEARNER.outcome(model, graphs, 0.0).total_loss(0.0)
    torch.testing.assert_close(found, losses + 0.5 * halting / (nodes * 4), atol=1e-4, rtol=1e-4)
    found.backward()
    assert model.encoder.halting.linear.weight.grad.abs().sum() > 0


def test_step_losses_learn_when_an_answer_stays_right() -> None:
    task = TASKS["node"]
    options: Any = {"rule": "fixed:halt_from=output", "step_loss": "mean", "max_steps": 4}
    options |= {"inject_input": True, "noise": 3.0, "noise_on": "every_step"}  # answers change
    now, later = (make_model(task, **options, halting_target=x) for x in ("right", "stays_right"))
    batch = GraphBatch.of(task.test, "node")
    steps = batch.run(later.train(), get_steps=True).steps
    assert steps is not None
    answers = torch.stack([later.read_out(batch.layout, rows.states).argmax(1) for rows in steps])
    right = answers == batch.labels
    wanted = torch.stack([right[t:].all(0) for t in range(4)])
    assert (wanted != right).any() and wanted[:-1].any()
    for model, target in ((now, right), (later, wanted)):
        p = torch.stack([rows.probability for rows in steps])
        expected = -torch.where(target, p, 1 - p).log().mean()
        torch.testing.assert_close(step_losses(model, batch, steps).halting, expected)


def test_halting_loss_alone_leaves_the_loss_of_final_answers() -> None:
    task = TASKS["node"]
    plain, both = (make_model(task, halting_loss=weight) for weight in (0.0, 0.5))
    outcomes = [LEARNER.outcome(model, task.test, 0.0) for model in (plain, both)]
    batch = GraphBatch.of(task.test, "node")
    steps = batch.run(both, get_steps=True).steps
    assert steps is not None
    halting = step_losses(both, batch, steps).halting
    torch.testing.assert_close(outcomes[1].total_loss(0.0), outcomes[0].loss + 0.5 * halting)


@pytest.mark.parametrize("max_steps", [4, 5])
def test_losses_of_late_rounds_auxiliary_target_and_change(max_steps: int) -> None:
    """All are means over nodes; the first two over steps 3 to the last, the third from 2 on."""
    model = make_model(
        TASKS["edge"],
        adaptive=False,
        step_loss="second_half",
        max_steps=max_steps,
        depth_modulus=3,
        change_penalty=0.7,
        change_scale=0.2,
    )
    first, *others = TASKS["edge"].test
    assert first.depth is not None
    graphs = [first._replace(depth=np.r_[-1, first.depth[1:]]), *others]  # one is not known
    batch = GraphBatch.of(graphs, "edge")
    steps = batch.run(model, get_steps=True).steps
    assert steps is not None and len(steps) == max_steps
    losses, auxiliary, change = [], [], []
    for number, rows in enumerate(steps):
        logs = model.auxiliary(rows.states).log_softmax(1)
        for node, depth in enumerate(batch.depth.tolist()):
            if number >= 2 and depth >= 0:
                auxiliary.append(-logs[node, depth % 3])
            if number >= 1:
                c = sum((rows.states[node] - steps[number - 1].states[node]) ** 2) / 16
                change.append(c / (c + 0.04))
        if number >= 2:
            losses.append(batch.judge(model, model.read_out(batch.layout, rows.states))[0])
    outcome = LEARNER.outcome(model, graphs, 0.0)
    assert outcome.counts == LEARNER.counts(model, graphs)
    assert outcome.counts["depth"] == outcome.counts["change"] - 1 == len(batch.depth) - 1
    means = [torch.stack(each).mean() for each in (losses, auxiliary, change)]
    for share in (0.0, 0.5, 1.0):
        wanted = means[0] + means[1] + share * 0.7 * means[2]
        torch.testing.assert_close(outcome.total_loss(0.0, late_share=share), wanted)
    outcome.total_loss(0.0).backward()
    assert all(weight.grad.abs().sum() > 0 for weight in model.auxiliary.parameters())


def test_outcome_smooths_classes_and_refuses_to_smooth_edges() -> None:
    model, graphs = make_model(TASKS["node"]), TASKS["node"].test
    batch = GraphBatch.of(graphs, "node")
    logs = model(batch.layout, batch.nodes).logits.log_softmax(-1)
    wanted = -(0.7 * logs.gather(1, batch.labels[:, None])[:, 0] + 0.3 * logs.mean(1)).mean()
    torch.testing.assert_close(LEARNER.outcome(model, graphs, 0.3).total_loss(0.0), wanted)
    with pytest.raises(ValueError, match=r"where edges answer it is 0, not 0\.3"):
        LEARNER.outcome(make_model(TASKS["edge"]), TASKS["edge"].test, 0.3)


def test_scores_leave_out_nodes_that_are_not_asked() -> None:
    model, graphs = make_model(TASKS["node"]), TASKS["node"].test
    first = [g._replace(labels=np.where(np.arange(len(g.nodes)) > 0, -1, g.labels)) for g in graphs]
    found = score_graphs(model, first)
    assert (~np.isnan(found.right)).sum() == len(graphs) < len(found.steps)
    none = [graph._replace(labels=np.full(len(graph.nodes), -1)) for graph in graphs]
    assert LEARNER.outcome(model, none, 0.0).total_loss(0.0) == 0
    with pytest.raises(ValueError, match="no node of the graphs has an answer"):
        score_graphs(model, none)


def test_scores_by_depth_and_group_equal_means_over_nodes() -> None:
    model, graphs = make_model(TASKS["node"]), TASKS["node"].test
    scores = score_graphs(model, graphs)
    for row in scores.by_depth():
        here = (scores.depth >= row["from"]) & (scores.depth <= row["to"])
        assert row["nodes"] == here.sum()
        assert row["accuracy"] == pytest.approx(scores.right[here].mean())
        assert row["steps"] == pytest.approx(scores.steps[here].mean())
    assert sum(row["nodes"] for row in scores.by_depth()) == len(scores.depth)
    groups = {row["group"]: row["nodes"] for row in scores.by_group()}
    assert scores.by_group()[0]["accuracy"] == pytest.approx(
        np.mean(
            [
                r
                for r, g in zip(scores.right, scores.graph, strict=True)
                if scores.groups[g] == "near"
            ]
        )
    )
    assert groups == {
        name: sum(len(graph.nodes) for graph in graphs if graph.group == name)
        for name in ("near", "path")
    }
    correlation = scores.metrics()["rank_correlation"]
    assert correlation == pytest.approx(spearmanr(scores.depth, scores.steps)[0])


def test_scores_of_unknown_depths_have_no_correlation_and_no_work_ratio() -> None:
    model, graphs = make_model(TASKS["node"]), TASKS["node"].test
    metrics = score_graphs(model, [graph._replace(depth=None) for graph in graphs]).metrics()
    assert metrics["rank_correlation"] is None and metrics["work_ratio"] is None
    assert "depth" not in str(LEARNER.evaluation(**metrics))
    assert "work" in str(LEARNER.evaluation(**score_graphs(model, graphs).metrics()))


def waking_model(**options: Any) -> UniversalGraphTransformer:
    shape: dict[str, Any] = {"adaptive": False, "step_signal": "none", "inject_input": True}
    return make_model(TASKS["node"], evaluation_rule="event_driven", **shape, **options)


def test_scores_by_events_have_rounds_and_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_scores, "_BATCH_NODES", 20)
    graphs = TASKS["node"].test
    model = waking_model(quantize=1)
    scores = score_graphs(model, graphs)
    assert scores.rounds is not None and scores.quiescent is not None
    assert model.evaluation_rule == EventDriven()  # the limit of rounds was for these graphs
    assert scores.quiescent.all() and scores.rounds.max() < 100
    for rows in (scores.by_group(), [LEARNER.evaluate_in_detail(model, {}, graphs)[1]]):
        assert max(row["rounds"] for row in rows) == scores.rounds.max()
        assert all(row["quiescent"] == 1 for row in rows)
    for place, graph in enumerate(sorted(graphs, key=lambda graph: len(graph.nodes))):
        alone = score_graphs(model, [graph])
        assert alone.rounds is not None and alone.rounds[0] == scores.rounds[place]
        assert alone.steps.tolist() == scores.steps[scores.graph == place].tolist()
    model.evaluation_rule = EventDriven(max_rounds=1)
    evaluation, details = LEARNER.evaluate_in_detail(model, {}, graphs)
    assert (details["rounds"], details["quiescent"]) == (1, 0)
    assert str(evaluation).endswith(", 1 round at most, 0.00% of graphs at rest")


def test_change_penalty_counts_sleeping_nodes_as_unchanged() -> None:
    model, graphs = waking_model(quantize=1, change_penalty=0.1, max_steps=9), TASKS["node"].test
    batch, found = GraphBatch.of(graphs, "node"), []
    for rule in (EventDriven(), FixedDepth()):
        model.evaluation_rule = rule
        steps = batch.run(model.eval(), get_steps=True).steps
        found.append(step_losses(model, batch, [*steps][:9]).change * (len(steps) - 1))
    assert len(steps) == 9 and found[0] > 0
    torch.testing.assert_close(*found)


def test_scores_by_events_stop_after_rounds_that_grow_with_the_graphs() -> None:
    graph = GraphDistance(held_out=1, sizes="5-5").test[0]
    model = waking_model()
    with until_quiescent(model, 2):
        assert model.evaluation_rule == EventDriven(max_rounds=108)
    model.encoder.step.transition.layers[-1].weight.data.mul_(40)  # chaotic: it never rests
    scores = score_graphs(model, [graph])
    assert scores.rounds is not None and scores.rounds.tolist() == [4 * 5 + 100]


def test_needed_flops_are_those_of_halting_after_one_step_more_than_the_depth() -> None:
    graph = GraphDistance(held_out=1, sizes="30-30").test[0]
    layout = GraphBatch.of([graph], "node").layout
    assert graph.depth is not None
    depth = torch.from_numpy(graph.depth)
    halting = ScheduledHalting(depth + 1, share=1e-4)
    layer = AdaptiveRecurrence(build_step(), halting, max_steps=60, halted="frozen")
    _, ponder = layer(layout, torch.randn(30, 8, dtype=torch.float64))
    assert ponder.steps.tolist() == (depth + 1).tolist()
    assert needed_flops(ponder, depth) == int(ponder.flops)


@pytest.mark.parametrize("task", ["graph-distance", "graph-bfs", "prefix-parity"])
def test_graphs_are_trained_evaluated_and_shown(
    task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(tmp_path / "run")
    assert main(["train", task, "--out", run, *TINY.split(), *SMALL.split()]) == 0
    text = capsys.readouterr().out
    assert "never halts before the cap" not in text  # in training it should not
    assert "test, 4 graphs: " in text and "\nsteps " in text and " answers are correct" in text
    asked = {"max_steps": 9, "evaluation_rule": "threshold:threshold=0.2,halt_from=output"}
    options = [word for name, value in asked.items() for word in (flag(name), str(value))]
    assert main(["eval", run, *options]) == 0
    assert "-12, 2 graphs: " in capsys.readouterr().out
    assert read_json(tmp_path / "run" / "evaluation-test.json")["options"] == asked


@pytest.mark.parametrize("task", ["graph-distance", "graph-reach", "graph-path", "graph-bfs"])
def test_graphs_that_wake_are_trained_and_evaluated(
    task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(tmp_path / "run")
    words = ["train", task, "--preset", "waking", "--out", run, *TINY.split(), *SMALL.split()]
    assert main([*words, "--test-families", "path"]) == 0
    assert "graphs at rest" in capsys.readouterr().out
    assert main(["eval", run, "--max-steps", "1", "--set", "path-12"]) == 0
    assert "1 round at most" in capsys.readouterr().out
    assert read_json(tmp_path / "run" / "evaluation-path-12.json")["rounds"] == 1
    assert main(["eval", run, "--max-steps", "0"]) == 2
    assert "max_steps must be a whole number, at least 1; got 0" in capsys.readouterr().err
    assert main(["eval", run, "--evaluation-rule", "oak"]) == 2
    assert "oak" in capsys.readouterr().err
    assert main(["generate", run, "a"]) == 2
    assert "a graph cannot be typed: graphut eval FOLDER --data" in capsys.readouterr().err
    for name in ("wave.png", "wave.gif"):
        assert main(["show", run, "2", "--out", str(tmp_path / name)]) == 0
        assert "answers are correct" in capsys.readouterr().out and (tmp_path / name).exists()
    large = ["show", run, "1", "--out", str(tmp_path / "sizes.png")]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(show, "_LARGEST_GRAPH", 2)
        assert main(large) == 0
    assert main([*large, "--draw", "all"]) == 2
    assert "--draw is for texts" in capsys.readouterr().err
    for number in ("0", "5", "a"):
        assert main(["show", run, number, "--out", str(tmp_path / "a.png")]) == 2
        assert f"its number in the test set, 1 to 4; got '{number}'" in capsys.readouterr().err
    assert main(["report", run, "--out", str(tmp_path / "report.html")]) == 0
    assert "how often nodes compute" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("answer_at", ["node", "edge", "graph"])
@pytest.mark.parametrize("layer", ["attention", "gin"])
def test_answers_mark_the_nodes_with_wrong_answers(answer_at: str, layer: str) -> None:
    task = TASKS.get(answer_at, TASKS["node"])
    graphs = whole(task.test) if answer_at == "graph" else task.test
    model = make_model(task, answer_at=answer_at, layer=layer)
    answers = LEARNER.answers(model, task, graphs)
    for graph, found in zip(graphs, answers, strict=True):
        right = alone(model, graph)[1] if answer_at != "graph" else None
        scores = score_graphs(model, [graph])
        right_answers = f"{int(scores.asked.sum())} of {len(scores.asked)} answers are correct"
        assert found.text == right_answers
        assert found.is_correct == bool(scores.asked.all())
        [part] = found.parts
        kinds = [task.node_kinds.symbols[kind] for kind in graph.nodes]
        marks = [" (wrong)" if right is not None and not ok else "" for ok in right or graph.nodes]
        assert part.names == [
            f"{i} {kind}{mark}" for i, (kind, mark) in enumerate(zip(kinds, marks, strict=True))
        ]
        assert part.ponder.steps.tolist() == scores.steps.tolist()
        assert (part.ponder.attention is not None and len(part.ponder.attention.weights) > 0) == (
            layer == "attention"
        )
    assert {found.is_correct for found in answers} == {True, False} or answer_at != "graph"


def test_read_graphs_for_a_trained_model(tmp_path: Path) -> None:
    graph = networkx.path_graph(4)
    for node, data in graph.nodes(data=True):
        data.update(feat="marked" if node == 0 else "plain", label="yes" if node % 2 else "no")
    networkx.write_graphml(graph, tmp_path / "path.graphml")
    task, config = TASKS["node"], SimpleNamespace(answer_at="node", num_feats=0)
    [found] = LEARNER.read(str(tmp_path), task.vocabularies, config, task)
    assert found.nodes.tolist() == [1, 0, 0, 0] and found.labels.tolist() == [0, 1, 0, 1]
    with pytest.raises(ValueError, match="where edges answer, graphs cannot be read"):
        LEARNER.read(str(tmp_path), TASKS["edge"].vocabularies, None, TASKS["edge"])
    others = {"node": Vocabulary(["plain"]), "answer": task.answers}
    with pytest.raises(ValueError, match=r"path\.graphml: .*unknown symbol 'marked'"):
        LEARNER.read(str(tmp_path), others, config, task)
    with pytest.raises(ValueError, match="has labels of nodes, and the run answers for each graph"):
        LEARNER.read(str(tmp_path), task.vocabularies, SimpleNamespace(answer_at="graph"), task)
    networkx.set_node_attributes(graph, {n: n > 1 for n in graph}, "test_mask")
    (tmp_path / "masked").mkdir()
    networkx.write_graphml(graph, tmp_path / "masked" / "path.graphml")
    [found] = LEARNER.read(str(tmp_path / "masked"), task.vocabularies, config, task)
    assert found.labels.tolist() == [-1, -1, 0, 1]
    for _, data in graph.nodes(data=True):
        del data["label"], data["test_mask"]
    networkx.write_graphml(graph, tmp_path / "unlabelled.graphml")  # nothing in it is asked
    assert len(LEARNER.read(str(tmp_path), task.vocabularies, config, task)) == 1
