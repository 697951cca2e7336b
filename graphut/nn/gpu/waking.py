"""Rounds in which nodes wake, on a GPU whose host learns only after some of them who is awake."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphut.attention.triton.csr import by_destination, by_source
from graphut.attention.triton.function import SPLIT, has_tiles
from graphut.attention.triton.inputs import Launch, padded
from graphut.nn.call_state import LoopOutput, LoopState
from graphut.nn.gpu.device_loop import node_counts, program_inputs
from graphut.nn.gpu.kernels.waking import attend, count, list_awake, read, settle, wake_far
from graphut.nn.gpu.program import ALIGNED, GROUP, Program
from graphut.nn.gpu.replay import Lease
from graphut.nn.waking_frontier import Start, waking_output

PROGRAMS = 4096  # of a kernel that loops over rows: more than run at the same time
_NO_ERROR = 2**31 - 1


class WakingProgram(Program):
    """The launches of some rounds in which nodes wake, and the tensors that they read and write.

    The inputs `clock` and `woken` are as in `graphut.nn.gpu.kernels.waking`. The launches replace
    the states among the inputs, and those of the next rounds are the same.
    """

    def _allocate(self) -> None:
        size, steps, short = self.size, self.steps, torch.int32
        self.groups = size // GROUP + 1
        for name, length in (("before", size + ALIGNED), ("nodes", size), ("active", ALIGNED)):
            steps[name] = self._new(1, length, dtype=short)
        steps["count"] = steps["active"]
        for name in ("updates", "last_change"):
            self.whole[name] = self._new(size, dtype=short)
        self.whole["going"] = self._new(self.groups, dtype=short)
        self.whole["report"] = self._new(self.settings.rounds + 2, dtype=short)
        self._allocate_rows()

    def _forward(self, t: int) -> list[Launch]:
        edges = self.layouts[0].cached(by_source, SPLIT)
        ends = {"out_starts": edges.indptr, "targets": edges.neighbours, "split": SPLIT}
        own = {"threshold": self.settings.tol**2, "block_e": 8, **ends}
        rows, groups = (min(self.size, PROGRAMS),), (self.groups,)
        end = [self._launch(settle, rows, t, **self._norm("sums", t), **own)]
        if pieces := len(edges.pieces.owner):
            far = {"owner": edges.pieces.owner, "start": edges.pieces.start, **ends}
            end.append(self._launch(wake_far, (pieces,), t, **far))
        counted = self._launch(count, groups, t)
        listed = [
            self._launch(list_awake, groups, t, place=1 + place)
            for place in range(self.settings.rounds + 1)
        ]
        body = self._update(t)
        begin = [self._launch(read, rows, t, begins=True), body[0]]
        body = [self._launch(read, rows, t, begins=False), *body, *end]
        launches = [x for each in listed[:-1] for x in (counted, each, *body)]
        return [*begin, *launches, counted, listed[-1]]

    def _attend(self, t: int, prefix: str = "", *, backward: bool = False) -> list[Launch]:
        launches, heads = super()._attend(t, prefix, backward=backward), self.settings.heads[0]
        width = self._attentions()[""] // heads
        if has_tiles(self.layouts[0], padded(width)):
            return launches
        edges = self.layouts[0].cached(by_destination, SPLIT)
        by_head, by_width = padded(heads, 1), padded(width, 1)
        own: dict[str, Any] = {"indptr": edges.indptr, "neighbours": edges.neighbours}
        own |= {"factor": width**-0.5, "heads": heads, "width": width, "split": SPLIT}
        own |= {"block_h": by_head, "block_w": by_width, "num_warps": 1}
        own |= {"block_e": max(2, min(8, 1024 // (by_head * by_width)))}
        if by_head * by_width > 512:
            own["num_warps"] = 4
        # Rows with more edges are computed in pieces.
        return [self._launch(attend, (min(self.size, PROGRAMS),), t, **own), *launches[1:]]


def run_program(state: LoopState, start: Start | None) -> LoopOutput:
    """Run rounds until no node is awake, and return the results of all nodes."""
    plan, context, settings = state.plan, state.context, state.plan.program
    layout, limit = context.layout, plan.max_steps
    inputs = program_inputs(state, plan.steps[0], None, settings)
    woken = torch.ones(layout.num_src, dtype=torch.int32, device=layout.device)
    if start is not None:
        inputs["states"] = torch.cat([start.shown, inputs["states"][len(start.shown) :]])
        if start.frontier is not None:
            woken = torch.zeros_like(woken).index_fill_(0, start.frontier, 1)
    clock = torch.zeros(ALIGNED, dtype=torch.int32, device=layout.device)
    clock[1].fill_(min(limit, 2**30))
    inputs |= {"woken": woken, "clock": clock, "sizes": layout.cached(node_counts)}

    def make() -> WakingProgram:
        with torch.inference_mode(False):
            static = {name: torch.empty_like(x) for name, x in inputs.items()}
            return WakingProgram(settings, static, (layout, None))

    kinds = tuple((name, x.shape, x.dtype, x.device) for name, x in inputs.items())
    stream = torch.cuda.current_stream(layout.device)
    lease = Lease((settings, kinds, layout, stream), make)
    program = lease.program
    sizes: list[int] = []
    with torch.cuda.device_of(state.feat):
        program.load(inputs)
        left = 1
        while left and len(sizes) < limit:
            lease.forward.run()
            error, *numbers = program.whole["report"].tolist()
            if error != _NO_ERROR:
                t, node = divmod(error, program.size)
                raise ValueError(
                    f"the state of node {node} is not finite in round {len(sizes) + t + 1}: a "
                    "weight of the model or a state that the node reads is not finite"
                )
            rounds = min(settings.rounds, limit - len(sizes))
            left = numbers[rounds]
            sizes += filter(None, numbers[:rounds])
        states, woken = program.inputs["states"].clone(), program.inputs["woken"].long()
        updates, last = (
            program.whole[name][: layout.num_dst].long() for name in ("updates", "last_change")
        )
    context.work.projected = updates.sum() + layout.num_src
    record = _graphs(state, woken[: layout.num_dst], len(sizes), bool(left))
    record |= {"last_change": last, "round_sizes": sizes}
    return waking_output(context, states, updates, record)


def _graphs(state: LoopState, woken: Tensor, rounds: int, is_cut: bool) -> dict[str, Any]:
    """Return the nodes that are awake after the last round, and the rounds of each graph."""
    awake = (woken > rounds).nonzero()[:, 0] if is_cut else woken.new_empty(0)
    if state.batch is None:
        last = woken.new_full((1,), rounds + is_cut)
    else:  # a graph whose nodes are all at rest stays at rest
        last = woken.new_zeros(state.batch.num_graphs)
        last = last.scatter_reduce(0, state.batch.graph, woken, "amax")
    return {"awake": awake, "rounds": last.clamp_max(rounds), "quiescent": last <= rounds}
