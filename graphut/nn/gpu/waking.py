"""Rounds in which nodes wake, on a GPU whose host learns only after some of them who is awake."""

from typing import Any, NamedTuple

import torch
import triton.language as tl
from torch import Tensor

from graphut.attention.layout import node_counts
from graphut.attention.triton.launches import (
    PROGRAMS,
    CSREdges,
    Launch,
    by_source,
    constant,
    edges_from,
    tensors_of,
)
from graphut.nn.call import Call, LoopOutput
from graphut.nn.gpu.async_checks import NO_ERROR
from graphut.nn.gpu.device_loop import layout_inputs, program_inputs
from graphut.nn.gpu.kernels.rows import advance, count, settle
from graphut.nn.gpu.program import GROUP, Program, Tensors
from graphut.nn.gpu.replay import Lease
from graphut.nn.gpu.settings import Settings
from graphut.nn.waking import Start, waking_output


class Waking(NamedTuple):
    """Arguments of kernels for rounds: counts of updates, out-edges and a tolerance."""

    updates: Tensor  # (sources,) how often each node has computed
    last_change: Tensor  # (sources,) the last round that has changed a node
    out_edges: CSREdges
    threshold: float  # square of the tolerance
    levels: tl.constexpr
    is_relative: tl.constexpr  # whether changes are


class WakingProgram(Program):
    """The launches of `max_steps` rounds in which nodes wake. They replace the states among inputs.

    Rounds in `halted` and `last_change` count from the first round of a run.
    """

    def __init__(self, settings: Settings, inputs: Tensors) -> None:
        super().__init__(settings, inputs)
        self.forward = self.forward[1:-1]  # only rounds, a run of which may have fewer

    def begin(self, frontier: Tensor | None, num_dst: int) -> None:
        """Project all sources to keys and values, and wake the nodes in `frontier` (None: all)."""
        for launch in self.start:
            launch()
        torch._foreach_zero_([self.whole[x] for x in ("halted", "updates", "last_change")])
        if frontier is None:
            self.whole["halted"][:num_dst].fill_(1)
        else:
            self.whole["halted"].index_fill_(0, frontier, 1)

    def run(self, lease: Lease, rounds: int) -> tuple[list[int], int, int]:
        """Run rounds; return how many nodes each has, how many the next has, and any error."""
        lease.run(rounds * len(self.forward) // self.settings.max_steps)
        halted, last_change = self.whole["halted"], self.whole["last_change"]
        left = (halted > rounds).sum(0, keepdim=True)
        active, errors = self.steps["active"][:rounds, 0], self.whole["errors"]
        *sizes, left, error = torch.cat([active, left, errors.amin(0, keepdim=True)]).tolist()
        torch._foreach_sub_([halted, last_change], rounds)
        return [*filter(None, sizes)], left, error

    def _allocate(self) -> None:
        super()._allocate()
        self._share("updates last_change", self.size, dtype=torch.int32)

    def _forward(self, t: int) -> list[Launch]:
        settings, blocks, update = self.settings, self.size // self.block + 1, self._update(t)
        out_edges = edges_from(self.inputs)[1]
        levels = constant(settings.levels)
        by_node = self.whole["updates"], self.whole["last_change"]
        is_relative = constant(settings.norm == "pre")
        waking = Waking(*by_node, out_edges, settings.tol**2, levels, is_relative)
        own: dict[str, Any] = {"waking": waking, "norm": self._norm("sums", t - 1)}
        listed: dict[str, Any] = {"last": None, "signal": None}
        if t == 1:  # all sources are listed, and projected to keys and values
            everyone = listed | {"shared": self.shared._replace(stored=constant("all"))}
            begin = self._launch(advance, t, (blocks,), **everyone, is_first=True)
            self.start: list[Any] = [self.weights.prepare, begin, update[0]]
        return [
            self._launch(count, t, (self.size // GROUP + 1,)),
            self._launch(advance, t, (blocks,), is_first=False, **listed),
            *update,
            self._launch(settle, t, (min(blocks, PROGRAMS),), **own),
        ]


def run_program(call: Call, start: Start | None) -> LoopOutput:
    """Run rounds until no node is awake, and return the results of all nodes."""
    settings, store = call.program, call.store
    layout, limit, done, left = store.layout, call.max_steps, 0, 1
    inputs = program_inputs(call, call.steps[0], None, settings)
    inputs["sizes"] = layout.cached(node_counts)[0]
    if start is not None:
        inputs["states"] = torch.cat([start.shown, inputs["states"][len(start.shown) :]])
    inputs |= layout_inputs(layout, "", settings, inputs)
    inputs |= tensors_of([layout.cached(by_source)._replace(ids=None)], ways=["out"])
    lease = Lease(WakingProgram, settings, inputs)
    program, sizes = lease.program, list[int]()
    assert isinstance(program, WakingProgram)
    with torch.cuda.device_of(call.feat):
        program.load(inputs)
        with lease.guard():
            program.begin(None if start is None else start.frontier, layout.num_dst)
        while left and done < limit:
            rounds = min(settings.max_steps, limit - done)
            active, left, error = program.run(lease, rounds)
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
    store.work.projected = updates.sum() + layout.num_src
    record = _graphs(call, halted + done, len(sizes), bool(left))
    record |= {"last_change": last_change + done, "round_sizes": sizes}
    return waking_output(store, shown, updates, record)


def _graphs(call: Call, halted: Tensor, rounds: int, is_cut: bool) -> dict[str, Any]:
    """Return the nodes that are awake after the last round, and the rounds of each graph."""
    awake = (halted > rounds).nonzero()[:, 0] if is_cut else halted.new_empty(0)
    if call.batch is None:
        last = halted.new_full((1,), rounds + is_cut)
    else:  # a graph whose nodes are all at rest stays at rest
        last = halted.new_zeros(call.batch.num_graphs)
        last = last.scatter_reduce(0, call.batch.graph, halted, "amax")
    return {"awake": awake, "rounds": last.clamp_max(rounds), "quiescent": last <= rounds}
