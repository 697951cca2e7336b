from typing import Any

import numpy as np
import pytest
import torch

from graphut.experiments.tasks import LabelledGraph
from graphut.experiments.training.learners.graph_batch import (
    GraphBatch,
    step_losses,
)
from graphut.models import UniversalGraphTransformer, UniversalGraphTransformerConfig
from graphut.nn import EventDriven, FixedDepth
from tests.experiments.training.learners.small_graphs import (
    LEARNER,
    TASKS,
    make_model,
    waking_model,
    whole,
)


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
    now, weight, losses, halting = output.steps[0].states, 0.0, 0.0, 0.0
    graph_of_node = torch.repeat_interleave(batch.layout.dst_lengths)
    for rows in output.steps:
        now = now.index_copy(0, rows.nodes, rows.states)
        loss, right = batch.judge(model, model.read_out(batch.layout, now))
        for node, share, p in zip(rows.nodes, rows.weights, rows.probability, strict=True):
            answer = graph_of_node[node] if answer_at == "graph" else node  # all are asked
            losses = losses + loss[answer] * (share if step_loss == "weighted" else 1)
            weight = weight + share.item()
            halting = halting - (p if right[answer] else 1 - p).log()
    nodes = len(graph_of_node)
    assert weight == pytest.approx(nodes, rel=1e-4)  # the weights of a node sum to 1
    losses = losses / (nodes if step_loss == "weighted" else nodes * 4)
    total = LEARNER(model, {}).outcome(graphs, 0.0).total_loss(0.0)
    torch.testing.assert_close(total, losses + 0.5 * halting / (nodes * 4), atol=1e-4, rtol=1e-4)
    total.backward()
    assert model.encoder.halting.linear.weight.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("shares", "labels", "is_right"),
    [
        ((0.5, 0.3, 0.2), (1, 0, 0), True),
        ((0.4, 0.4, 0.2), (1, 1, 0), True),
        ((0.4, 0.4, 0.2), (1, 0, 0), False),
    ],
)
def test_judge_takes_no_tie_for_an_answer(
    shares: tuple[float, ...], labels: tuple[int, ...], is_right: bool
) -> None:
    model = UniversalGraphTransformer(
        UniversalGraphTransformerConfig(num_kinds=1, answer_at="edge", d_model=8)
    )
    edges = np.array([[0, 1, 2], [0, 0, 0]])
    graph = LabelledGraph(edges, np.zeros(3, np.int64), np.array(labels))
    batch = GraphBatch.of([graph], "edge")
    loss, right = batch.judge(model, torch.tensor(shares).log())
    assert right.tolist() == [is_right]
    assert loss.exp().tolist() == pytest.approx([1 / np.dot(shares, labels)])


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
    outcomes = [LEARNER(model, {}).outcome(task.test, 0.0) for model in (plain, both)]
    batch = GraphBatch.of(task.test, "node")
    steps = batch.run(both, get_steps=True).steps
    assert steps is not None
    halting = step_losses(both, batch, steps).halting
    torch.testing.assert_close(outcomes[1].total_loss(0.0), outcomes[0].loss + 0.5 * halting)


@pytest.mark.parametrize("max_steps", [4, 5])
def test_losses_of_late_rounds_auxiliary_target_and_change(max_steps: int) -> None:
    """All are means over nodes; the first two over steps 3 to the last, the third from 2 on."""
    losses_of: Any = {"step_loss": "second_half", "change_penalty": 0.7, "change_scale": 0.2}
    model = make_model(
        TASKS["edge"], adaptive=False, max_steps=max_steps, depth_modulus=3, **losses_of
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
    outcome = LEARNER(model, {}).outcome(graphs, 0.0)
    assert outcome.counts["depth"] == outcome.counts["change"] - 1 == len(batch.depth) - 1
    means = [torch.stack(each).mean() for each in (losses, auxiliary, change)]
    for share in (0.0, 0.5, 1.0):
        wanted = means[0] + means[1] + share * 0.7 * means[2]
        torch.testing.assert_close(outcome.total_loss(0.0, late_share=share), wanted)
    outcome.total_loss(0.0).backward()
    assert all(weight.grad.abs().sum() > 0 for weight in model.auxiliary.parameters())


def test_losses_of_known_answers_leave_out_earlier_steps() -> None:
    """A node counts from step 2 * depth + 2 on, and from the first if its depth is unknown."""
    model = make_model(TASKS["node"], adaptive=False, max_steps=9, step_loss="known")
    first, *others = TASKS["node"].test
    graphs = [first._replace(depth=np.r_[-1, first.depth[1:]]), *others]
    batch = GraphBatch.of(graphs, "node")
    steps = batch.run(model, get_steps=True).steps
    assert steps is not None
    terms = [
        batch.judge(model, model.read_out(batch.layout, rows.states))[0][node]
        for number, rows in enumerate(steps, 1)
        for node, depth in enumerate(batch.depth.tolist())
        if number >= 2 * depth + 2
    ]
    assert len(batch.depth) < len(terms) < len(batch.depth) * 9
    wanted = torch.stack(terms).sum() / (len(batch.depth) * 9)
    torch.testing.assert_close(step_losses(model, batch, steps).answers, wanted)


def test_change_penalty_counts_sleeping_nodes_as_unchanged() -> None:
    model, graphs = waking_model(quantize=1, change_penalty=0.1, max_steps=9), TASKS["node"].test
    batch, found = GraphBatch.of(graphs, "node"), []
    for rule in (EventDriven(), FixedDepth()):
        model.evaluation_rule = rule
        steps = batch.run(model.eval(), get_steps=True).steps
        found.append(step_losses(model, batch, [*steps][:9]).change * (len(steps) - 1))
    assert len(steps) == 9 and found[0] > 0
    torch.testing.assert_close(*found)
