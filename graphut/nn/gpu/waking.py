"""Rounds in which nodes wake, on a GPU whose host learns only after some of them who is awake."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphut.attention.triton.csr import by_destination, by_source
from graphut.attention.triton.function import SPLIT, has_tiles
from graphut.attention.triton.inputs import Launch, padded
from graphut.nn.call_state import LoopOutput, LoopState
from graphut.nn.gpu.async_checks import NO_ERROR
from graphut.nn.gpu.device_loop import full_shape, node_counts, program_inputs
from graphut.nn.gpu.kernels.rows import advance
from graphut.nn.gpu.kernels.waking import attend, count, settle
from graphut.nn.gpu.program import Program
from graphut.nn.gpu.replay import Replay, lease_program
from graphut.nn.waking_frontier import Start, waking_output

PROGRAMS = 4096  # of a kernel that loops over rows: as many as run at the same time


class WakingProgram(Program):
    """The launches of `max_steps` rounds in which nodes wake. They replace the states among inputs.

    Rounds in `halted` and `last_change` count from the first round of a run.
    """

    def begin(self, frontier: Tensor | None) -> None:
        """Project all sources to keys and values, and wake the nodes in `frontier` (None: all)."""
        for launch in self.start:
            launch.run()
        torch._foreach_zero_([self.whole[x] for x in ("halted", "updates", "last_change")])
        awake = self.whole["halted"][: self.layouts[0].num_dst]
        if frontier is None:
            awake.fill_(1)
        else:
            awake.index_fill_(0, frontier, 1)

    def run(self, replay: Replay, rounds: int) -> tuple[list[int], int, int]:
        """Run rounds; return how many nodes each has, how many the next has, and any error."""
        if rounds == self.settings.max_steps:
            replay.run()
        else:
            for launch in self.forward[: rounds * len(self.forward) // self.settings.max_steps]:
                launch.run()
        halted, last_change = self.whole["halted"], self.whole["last_change"]
        left = (halted > rounds).sum(0, keepdim=True)
        active, errors = self.steps["active"][:rounds, 0], self.whole["errors"]
        *sizes, left, error = torch.cat([active, left, errors.amin(0, keepdim=True)]).tolist()
        torch._foreach_sub_([halted, last_change], rounds)
        return [*filter(None, sizes)], left, error

    def _allocate(self) -> None:
        super()._allocate()
        for name in ("updates", "last_change"):
            self.whole[name] = self._new(self.size, dtype=torch.int32)

    def _forward(self, t: int) -> list[Launch]:
        edges = self.layouts[0].cached(by_source, SPLIT)
        own: dict[str, Any] = {"out_starts": edges.indptr, "targets": edges.neighbours}
        own |= {"threshold": self.settings.tol**2, "block_e": 16, **self._norm("sums", t)}
        blocks, update = self.size // self.block + 1, self._update(t)
        if t == 1:  # all sources are listed, and projected to keys and values
            everyone = {"is_first": True, "stored": "all", "signal": None}
            self.start = [self._launch(advance, (blocks,), t, **everyone), update[0]]
        return [
            self._launch(count, (self.groups,), t),
            self._launch(advance, (blocks,), t, is_first=False, signal=None),
            *update,
            self._launch(settle, (min(blocks, PROGRAMS),), t, **own),
        ]

    def _attend(self, t: int, prefix: str = "", *, backward: bool = False) -> list[Launch]:
        launches, heads = super()._attend(t, prefix, backward=backward), self.settings.heads[0]
        layout, width = self.layouts[0], self._attentions()[""] // heads
        if has_tiles(layout, padded(width)):
            return launches
        edges, tile = layout.cached(by_destination, SPLIT), padded(heads, 1) * padded(width, 1)
        own: dict[str, Any] = {"indptr": edges.indptr, "neighbours": edges.neighbours}
        own |= {"factor": width**-0.5, "heads": heads, "width": width, "split": SPLIT}
        own |= {"block_h": padded(heads, 1), "block_w": padded(width, 1)}
        own |= {"block_e": max(2, min(8, 1024 // tile)), "num_warps": 1 if tile <= 512 else 4}
        # The other launches are for rows with more edges.
        return [self._launch(attend, (min(self.size, PROGRAMS),), t, **own), *launches[1:]]


def run_program(state: LoopState, start: Start | None) -> LoopOutput:
    """Run rounds until no node is awake, and return the results of all nodes."""
    plan, context, settings = state.plan, state.context, state.plan.program
    layout, limit, done, left = context.layout, plan.max_steps, 0, 1
    inputs = program_inputs(state, plan.steps[0], None, settings)
    inputs["sizes"] = layout.cached(node_counts)
    if start is not None:
        inputs["states"] = torch.cat([start.shown, inputs["states"][len(start.shown) :]])
    shapes = {name: full_shape(name, x) for name, x in inputs.items()}
    lease = lease_program(WakingProgram, settings, inputs, shapes, (layout, None))
    program, sizes = lease.program, list[int]()
    assert isinstance(program, WakingProgram)
    with torch.cuda.device_of(state.feat):
        program.load(inputs)
        program.begin(None if start is None else start.frontier)
        while left and done < limit:
            rounds = min(settings.max_steps, limit - done)
            active, left, error = program.run(lease.forward, rounds)
            if error != NO_ERROR:
                t, node = divmod(error // 2, program.size)
                raise ValueError(
                    f"the state of node {node} is not finite in round {done + t}: a weight of the "
                    "model or a state that the node reads is not finite"
                )
            sizes += active
            done += rounds
        names = "halted", "last_change", "updates"
        halted, last_change, updates = (program.whole[x][: layout.num_dst].long() for x in names)
        shown = program.inputs["states"][: layout.num_src].clone()
    context.work.projected = updates.sum() + layout.num_src
    record = _graphs(state, halted + done, len(sizes), bool(left))
    record |= {"last_change": last_change + done, "round_sizes": sizes}
    return waking_output(context, shown, updates, record)


def _graphs(state: LoopState, halted: Tensor, rounds: int, is_cut: bool) -> dict[str, Any]:
    """Return the nodes that are awake after the last round, and the rounds of each graph."""
    awake = (halted > rounds).nonzero()[:, 0] if is_cut else halted.new_empty(0)
    if state.batch is None:
        last = halted.new_full((1,), rounds + is_cut)
    else:  # a graph whose nodes are all at rest stays at rest
        last = halted.new_zeros(state.batch.num_graphs)
        last = last.scatter_reduce(0, state.batch.graph, halted, "amax")
    return {"awake": awake, "rounds": last.clamp_max(rounds), "quiescent": last <= rounds}
