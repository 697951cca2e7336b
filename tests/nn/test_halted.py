from __future__ import annotations

import pytest
import torch
from torch import Tensor

from graphut.nn.halted import HALTED_NODES, StepInput
from graphut.nn.packed_rows import ActiveRows
from tests.helpers import assert_same, normal
from tests.nn.cases import build_step

FEAT, STATES, SIGNAL = normal(4, 8), normal(4, 8, seed=1), normal(8, seed=2)
HALTS = torch.tensor([True, False, False, True])


class Recorder:
    """A context that keeps what is written to it."""

    num_src = 4
    value_shift: Tensor | None = None

    def write(self, nodes: Tensor | None, key_value: Tensor) -> None:
        self.nodes, self.key_value = nodes, key_value


def written(halted: str, frontier: ActiveRows, norm: str = "post") -> Recorder:
    """Return what a way of halting writes in a step."""
    context = Recorder()
    given = StepInput(build_step(norm=norm), SIGNAL, frontier.active() + SIGNAL)
    HALTED_NODES[halted].write(context, frontier, given)
    return context


def after_two_steps() -> ActiveRows:
    """Return a frontier in which nodes 0 and 3 halted at step 1, and node 2 at step 2."""
    frontier = ActiveRows(FEAT, None, 4)
    frontier.advance(STATES, HALTS)
    frontier.advance(STATES[1:3] + 1, torch.tensor([False, True]))
    return frontier


@pytest.mark.parametrize("halted", HALTED_NODES)
def test_halted_nodes_write_all_nodes_at_first(halted: str) -> None:
    context, step = written(halted, ActiveRows(FEAT, None, 4)), build_step()
    expected = step.project(FEAT + SIGNAL)
    found = context.key_value
    if context.value_shift is not None:  # softmax does not see what moves every key
        found, expected = found[:, 8:] + context.value_shift, expected[:, 8:]
    assert context.nodes is None
    assert_same([found], [expected])


def test_copied_writes_nodes_once_more_and_shifts_the_others() -> None:
    context, step = written("copied", after_two_steps()), build_step()
    assert context.nodes.tolist() == [1, 2]
    assert_same([context.key_value], [step.project(STATES[1:3] + 1)])
    assert_same([context.value_shift], [step.value_shift(SIGNAL)])


def test_copied_writes_all_nodes_where_the_projection_is_not_linear() -> None:
    frontier = ActiveRows(FEAT, None, 4)
    written("copied", frontier, norm="pre")
    frontier.advance(STATES, HALTS)
    context = written("copied", frontier, norm="pre")
    assert context.nodes is None and context.value_shift is None
    assert_same([context.key_value], [build_step(norm="pre").project(STATES + SIGNAL)])


def test_frozen_writes_nodes_once_more_with_the_signal() -> None:
    context = written("frozen", after_two_steps())
    assert context.nodes.tolist() == [1, 2]
    assert_same([context.key_value], [build_step().project(STATES[1:3] + 1 + SIGNAL)])


def test_stale_writes_active_nodes_alone() -> None:
    context = written("stale", after_two_steps())
    assert context.nodes.tolist() == [1]
    assert_same([context.key_value], [build_step().project(STATES[1:2] + 1 + SIGNAL)])


def test_halted_nodes_are_written_for_so_many_steps_more() -> None:
    post, pre = build_step(), build_step(norm="pre")
    writes = {
        name: [halted.extra_writes(step, 6) for step in (post, pre)]
        for name, halted in HALTED_NODES.items()
    }
    assert writes == {"copied": [1, 6], "frozen": [1, 1], "stale": [0, 0]}
