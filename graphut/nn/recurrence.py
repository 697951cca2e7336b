"""The adaptive recurrence: one step again and again, over a frontier that shrinks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout, as_layout
from graphut.nn.blocks import block_layouts, run_blocks
from graphut.nn.bounded import can_be_bounded, run_bounded
from graphut.nn.checks import check_feat, check_same_nodes, sources_of
from graphut.nn.coordinates import place_signal, step_signals
from graphut.nn.frontier import Frontier, Harvest, plus
from graphut.nn.halting import HaltingUnit
from graphut.nn.ponder import Ponder
from graphut.nn.step import UniversalTransformerStep
from graphut.nn.surroundings import GraphSurroundings, Showing
from graphut.nn.tally import WEIGHTINGS, Rule, Tally
from graphut.nn.watch import LateWatch, Watch

HALTED = ("copied", "frozen", "stale", "running")
HALT_FROM = ("input", "output")
COSTS = ("steps+remainder", "remainder")

Run = tuple[Tensor, Tensor, Tensor]  # output, steps and remainder of each node


class AdaptiveRecurrence(nn.Module):
    r"""A Universal Transformer step, repeated until every node has halted.

    Adaptive Computation Time (arXiv 1603.08983) for each node, as in arXiv 1807.03819, section
    2.2. A step computes the frontier, the nodes that are still active, and nothing else:

    .. math::
        y_i = x_i + P(pos_i, t), \quad x_i \leftarrow \mathrm{Step}(y)_i, \quad
        p_i = \sigma(w \cdot u_i + b), \quad out_i \leftarrow out_i + w_i x_i

    A node halts when its probabilities sum to `threshold`, or at `max_steps`.

    Parameters
    ----------
    step : UniversalTransformerStep, or sequence of them
        The step, with weights shared by all repetitions. Or `max_steps` steps that are alike in
        all but their weights, one a repetition, and no `halting`: a plain Transformer, whose
        layers get the signals of position and step as the repetitions do.
    halting : HaltingUnit or ScheduledHalting, optional
        Gives each active node's halting probability. Without it all nodes take `max_steps` steps
        and the last state is the result.
    max_steps : int
        The cap, `T`; may be changed after training, but not where each repetition has a step of
        its own.
    threshold : float
        Sum of probabilities at which a node halts, in `(0, 1]`; may be changed after training.
    halted : {"copied", "frozen", "stale", "running"}
        What a halted node shows its neighbours: its final state with the signal of the present
        step; with the signal of the step after its last; the keys and values of its last step;
        or a state that goes on being transformed.
    weighting : {"sum", "ema", "last"}
        How a node's states become its output: weighted sum, the running average of
        tensor2tensor, or the state at halting.
    halt_from : {"input", "output"}
        Whether the halting unit reads the state before or after the step.
    forced_remainder : bool
        Whether a node at the cap spends what is left of its 1.
    cost : {"steps+remainder", "remainder"}
        The ponder cost: the mean over nodes of `N + R`, or of `R`.

    Raises
    ------
    ValueError
        If a name is unknown, or a sequence of steps does not fit the other arguments.

    Examples
    --------
    >>> import torch
    >>> from graphut.nn import HaltingUnit, MultiHeadAttention, PositionwiseTransition
    >>> from graphut.nn import UniversalTransformerStep
    >>> from graphut.topology import Complete
    >>> step = UniversalTransformerStep(MultiHeadAttention(8, 2), PositionwiseTransition(8, 32))
    >>> layer = AdaptiveRecurrence(step, HaltingUnit(8), max_steps=6)
    >>> out, ponder = layer(Complete().graph([3, 2]), torch.randn(5, 8))
    >>> out.shape, ponder.steps.shape
    (torch.Size([5, 8]), torch.Size([5]))
    """

    def __init__(
        self,
        step: UniversalTransformerStep | Sequence[UniversalTransformerStep],
        halting: nn.Module | None = None,
        *,
        max_steps: int = 8,
        threshold: float = 0.99,
        halted: str = "copied",
        weighting: str = "sum",
        halt_from: str = "input",
        forced_remainder: bool = True,
        cost: str = "steps+remainder",
    ) -> None:
        super().__init__()
        _one_of("halted", halted, HALTED)
        _one_of("weighting", weighting, WEIGHTINGS)
        _one_of("halt_from", halt_from, HALT_FROM)
        _one_of("cost", cost, COSTS)
        if isinstance(step, Sequence):
            _check_layers(step, halting, max_steps)
            for layer in step[:-1]:
                layer.output_norm = None  # only what the last one makes is read out
        elif isinstance(halting, HaltingUnit):
            _check_halting(step, halting)
        self.step = nn.ModuleList(step) if isinstance(step, Sequence) else step
        self.halting = halting
        self.max_steps = max_steps
        self.threshold = threshold
        self.halted = halted
        self.weighting = weighting
        self.halt_from = halt_from
        self.forced_remainder = forced_remainder
        self.cost = cost

    def reset_parameters(self) -> None:
        """Draw the parameters of step and halting unit anew."""
        for step in self.step if isinstance(self.step, nn.ModuleList) else [self.step]:
            step.reset_parameters()  # type: ignore[operator]
        if isinstance(self.halting, HaltingUnit):
            self.halting.reset_parameters()

    def forward(
        self,
        graph: DGLGraph | EdgeLayout | Sequence[DGLGraph | EdgeLayout],
        feat: Tensor | tuple[Tensor, Tensor],
        *,
        positions: Tensor | None = None,
        cross: tuple[DGLGraph | EdgeLayout, Tensor] | None = None,
        edge_bias: Any = None,
        get_attention: bool = False,
    ) -> tuple[Tensor, Ponder] | tuple[Tensor, Ponder, list[Tensor]]:
        """Repeat the step.

        Parameters
        ----------
        graph : DGLGraph, EdgeLayout, or list of them
            Edges of self-attention. Its destinations are its sources, or, in a block, the first
            of its sources; the other ones offer the features they came with, like halted nodes.
            In a list, as DGL's neighbour samplers make it, each block serves one step.
        feat : Tensor
            `(N_src, d)`, the first states `x^0`; of a list, those of the first block's sources; or
            a pair of them and of their first `N_dst` rows, as `dgl.nn.HeteroGraphConv` has it.
        positions : Tensor, optional
            `(N_src,)` position of each node, or `(N_src, k)` coordinates, each in `d / k` of the
            features; without it the signal is that of the step alone.
        cross : pair of graph and Tensor, optional
            For a decoder step: the edges from the source nodes, and the encoder's output.
        edge_bias : Tensor or list of Tensor, optional
            `(E,)` or `(E, num_heads)`, added to the scores of self-attention at every step; for a
            list of blocks one each.
        get_attention : bool
            Also return self-attention's weights.

        Returns
        -------
        Tensor
            `(N_dst, d)` output states; of a list, those of the last block's destinations.
        Ponder
            Steps and remainder of each node, the cost, and the work done (of a list, the work for
            these nodes alone, with the last block's edges).
        list of Tensor
            With `get_attention`: `(E, num_heads)` for each step that was done, zero for edges
            into halted nodes.

        Raises
        ------
        TypeError, ValueError
            If features are not finite or do not fit the graph or the layer, if `max_steps` or
            `threshold` is out of range, or if a halting probability is not a number. On a GPU
            with Triton nothing waits for the device: of numbers that are not finite, the error
            comes when the host knows of them, in this call or a later one of the layer.
        """
        feat = sources_of(feat)
        if isinstance(graph, Sequence):
            layouts = block_layouts(self, graph, edge_bias, feat.device)
        else:
            check_same_nodes(graph)
            layouts = [as_layout(graph).to(feat.device)]
        self._check(layouts[0], feat, positions)
        around = self.step_of(1).surroundings(layouts[0], cross)
        around.weights = [] if get_attention else None
        place = None
        if positions is not None:
            here = positions.to(feat.device, non_blocking=True)
            place = place_signal(here, feat.shape[1], feat.dtype)
        if isinstance(graph, Sequence):
            watch = Watch()
            watch.features(feat)
            out, steps, remainder = run_blocks(self, around, layouts, edge_bias, feat, place, watch)
        else:
            around.edge_bias = edge_bias
            watch = self._watch(around, feat)
            watch.features(feat)
            nodes = layouts[0].num_dst
            out, steps, remainder = self.run(around, feat, place, nodes=nodes, watch=watch)
        watch.close()
        ponder = self._record(around, steps, remainder)
        return (out, ponder) if around.weights is None else (out, ponder, around.weights)

    def _watch(self, around: GraphSurroundings, feat: Tensor) -> Watch:
        """Who looks at the numbers of a run; where they may wait, `around` is given a memory."""
        plain = around.edge_bias is None and around.weights is None
        if plain and can_be_bounded(self, around, feat):
            return LateWatch(self, feat.shape[0], around.layout.num_dst)
        if plain:
            around.in_place = self.step_of(1).attention.memory(around.layout, feat)
        return Watch()

    def run(
        self,
        around: Showing,
        feat: Tensor,
        place: Tensor | None,
        *,
        nodes: int | None = None,
        lasting: bool = False,
        watch: Watch | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Output, steps and remainder of the first `nodes` rows, whatever surrounds them.

        With `lasting`, what halted rows show is brought up to the cap, for rows to come that
        may ponder longer: what a decoding cache needs. With a `LateWatch` nothing waits for the
        device; it asks for a graph, and for attention that `takes_counts`.
        """
        watch = Watch() if watch is None else watch
        nodes = feat.shape[0] if nodes is None else nodes
        if self.halting is None:
            out, steps, remainder = self._run_fixed(around, feat, place, nodes)
        elif self.halted == "running":
            out, steps, remainder = self._run_everyone(around, feat, place, nodes, lasting, watch)
        elif isinstance(watch, LateWatch):
            assert isinstance(around, GraphSurroundings) and not lasting
            out, steps, remainder = run_bounded(self, around, feat, place, nodes, watch)
        else:
            out, steps, remainder = self._run_frontier(around, feat, place, nodes, lasting, watch)
        return self.readout(out), steps, remainder

    @property
    def max_steps(self) -> int:
        """The cap, `T`."""
        return self._max_steps

    @max_steps.setter
    def max_steps(self, steps: int) -> None:
        if isinstance(self.step, nn.ModuleList) and steps != len(self.step):
            raise ValueError(
                f"max_steps cannot become {steps}: {len(self.step)} repetitions have weights of "
                "their own (share_weights=False), and others would have none"
            )
        self._max_steps = steps

    def step_of(self, repetition: int) -> UniversalTransformerStep:
        """The step that is done as repetition 1, 2, ..., `max_steps`."""
        own = isinstance(self.step, nn.ModuleList)
        step = self.step[repetition - 1] if own else self.step  # type: ignore[index]
        return step  # type: ignore[return-value]

    def readout(self, out: Tensor) -> Tensor:
        """The last normalisation, of pre-norm steps."""
        return self.step_of(self.max_steps).readout(out)

    def rule(self) -> Rule:
        """When a node halts and how its states are weighted."""
        return Rule(self.threshold, self.max_steps, self.weighting, self.forced_remainder)

    def signal(self, step: int, like: Tensor) -> Tensor:
        """The signal of a step, `(d,)`, in the dtype and on the device of `like`."""
        return step_signals(self.max_steps, like.shape[1], like.dtype, like.device)[step - 1]

    def probability(self, before: Tensor, after: Tensor, nodes: Tensor | None, step: int) -> Tensor:
        """The halting probability of rows, given their states before and after a step."""
        assert self.halting is not None
        chosen = before if self.halt_from == "input" else after
        probability: Tensor = self.halting(chosen, nodes, step)
        return probability

    def _run_fixed(self, around: Showing, feat: Tensor, place: Tensor | None, nodes: int) -> Run:
        """`max_steps` steps of every node."""
        state = feat[:nodes]
        for step in range(1, self.max_steps + 1):
            state = self._everyone(around, state, feat, place, step)[1]
        steps = torch.full((nodes,), self.max_steps, device=feat.device)
        return state, steps, torch.zeros_like(steps, dtype=feat.dtype)

    def _run_everyone(
        self,
        around: Showing,
        feat: Tensor,
        place: Tensor | None,
        nodes: int,
        lasting: bool,
        watch: Watch,
    ) -> Run:
        """Steps of every node until all have halted; a halted node's output stays."""
        state, tally = feat[:nodes], Tally.start(self.rule(), feat[:nodes])
        active = torch.ones(nodes, dtype=torch.bool, device=feat.device)
        steps = torch.zeros(nodes, dtype=torch.int64, device=feat.device)
        remainder = torch.zeros_like(tally.spent)
        for step in range(1, self.max_steps + 1):
            before, state = self._everyone(around, state, feat, place, step)
            probability = self.probability(before, state, None, step)
            watch.probability(probability, None, step)
            steps = steps + active
            halts, left = tally.add(state, probability, step, active)
            remainder = torch.where(halts, left, remainder)
            active = active & ~halts
            if not (lasting or watch.left(active.sum())):
                break
        return tally.out, steps, remainder

    def _everyone(
        self, around: Showing, state: Tensor, feat: Tensor, place: Tensor | None, step: int
    ) -> tuple[Tensor, Tensor]:
        """A step of every node, before and after; source-only nodes show what they came with."""
        nodes = state.shape[0]
        shown = state if nodes == feat.shape[0] else torch.cat([state, feat[nodes:]])
        shown = plus(shown, place) + self.signal(step, feat)
        around.write(None, self.step_of(step).project(shown))
        before = shown[:nodes]
        return before, self.step_of(step).update(before, around)

    def _run_frontier(
        self,
        around: Showing,
        feat: Tensor,
        place: Tensor | None,
        nodes: int,
        lasting: bool,
        watch: Watch,
    ) -> Run:
        """Steps of the active nodes only, in packed rows."""
        frontier = Frontier(feat, place, nodes)
        tally, harvest = Tally.start(self.rule(), feat[:nodes]), Harvest()
        for step in range(1, self.max_steps + 1):
            before = self.show(around, frontier, step)
            state = self.step_of(step).update(before, around)
            probability = self.probability(before, state, frontier.nodes, step)
            watch.probability(probability, frontier.nodes, step)
            halts, left = tally.add(state, probability, step)
            gone, stay = halts.nonzero()[:, 0], (~halts).nonzero()[:, 0]
            if gone.numel():
                leaving = gone if frontier.nodes is None else frontier.nodes[gone]
                harvest.gather(leaving, tally.out.index_select(0, gone), left[gone], step)
                tally.keep(stay)
            frontier.advance(state, stay if gone.numel() else None)
            if not stay.numel():
                break
        if lasting and self.halted != "stale":
            every_step = self.halted == "copied" and self.step_of(step).norm == "pre"
            end = self.max_steps if every_step else min(step + 1, self.max_steps)
            for later in range(step + 1, end + 1):
                self.show(around, frontier, later)
        return harvest.in_order(nodes)

    def show(self, around: Showing, frontier: Frontier, step: int) -> Tensor:
        """Bring what nodes show up to date; return the frontier's rows with their signals.

        A node is projected while it is active and once more after it has halted.
        """
        signal, layer = self.signal(step, frontier.last()), self.step_of(step)
        before = frontier.active() + signal
        around.frontier = frontier.nodes
        around.value_shift = layer.shift(signal) if self.halted == "copied" else None
        if self.halted == "stale" and step > 1:
            around.write(frontier.nodes, layer.project(before))
        elif self.halted in ("frozen", "stale"):
            around.write(frontier.last_nodes, layer.project(frontier.last() + signal))
        elif around.value_shift is not None:
            around.write(frontier.last_nodes, layer.project(frontier.last()))
        else:
            around.write(None, layer.project(frontier.everyone() + signal))
        return before

    def _record(self, around: GraphSurroundings, steps: Tensor, remainder: Tensor) -> Ponder:
        step = self.step_of(1)
        cost = remainder.new_zeros(())
        if self.halting is not None:
            cost = (remainder + steps if self.cost == "steps+remainder" else remainder).mean()
        computed, projected = steps, steps
        if self.halted == "running" and self.halting is not None:
            computed = projected = steps.max().expand_as(steps)
        elif self.halted in ("copied", "frozen"):
            # Once more after halting, if a neighbour is still there to look.
            projected = torch.minimum(steps + 1, steps.max())
            if self.halted == "copied" and step.norm == "pre":
                projected = steps.max().expand_as(steps)
        degrees = around.layout.in_degrees
        if around.cross_layout is not None:
            degrees = degrees + around.cross_layout.in_degrees
        return Ponder(
            steps=steps,
            remainder=remainder,
            cost=cost,
            computed=computed,
            projected=projected,
            in_degrees=degrees,
            max_steps=self.max_steps,
            node_flops=step.node_flops,
            memory_flops=step.attention.memory_flops,
            edge_flops=step.attention.edge_flops,
            encoded_flops=0 if around.encoded is None else around.encoded.flops,
        )

    def _check(self, layout: EdgeLayout, feat: Tensor, positions: Tensor | None) -> None:
        if self.max_steps < 1:
            raise ValueError(f"max_steps must be at least 1, got {self.max_steps}")
        if not 0.0 < self.threshold <= 1.0:
            raise ValueError(f"threshold must lie in (0, 1], got {self.threshold}")
        nodes = layout.num_src
        if layout.num_dst == 0:
            raise ValueError("the graph has no nodes; a batch needs at least one")
        if layout.num_dst > nodes:
            raise ValueError(
                f"the graph has {layout.num_dst} destination and {nodes} source nodes; a "
                "recurrence needs every destination to be a source too"
            )
        check_feat(feat, "source", nodes, self.step_of(1).attention.query.weight)
        if positions is not None and (positions.shape[:1] != (nodes,) or positions.dim() > 2):
            raise ValueError(
                f"positions must be ({nodes},), one a node, or ({nodes}, coordinates); got shape "
                f"{tuple(positions.shape)}"
            )

    def extra_repr(self) -> str:
        """What `print` shows."""
        return (
            f"max_steps={self.max_steps}, threshold={self.threshold}, halted={self.halted!r}, "
            f"weighting={self.weighting!r}, halt_from={self.halt_from!r}"
        )


def _check_halting(step: UniversalTransformerStep, halting: HaltingUnit) -> None:
    read, width = halting.linear.in_features, step.attention.in_feats[1]
    if read != width:
        raise ValueError(
            f"the halting unit reads {read} features, but the step's states have {width}"
        )


def _check_layers(
    steps: Sequence[UniversalTransformerStep], halting: nn.Module | None, max_steps: int
) -> None:
    if halting is not None:
        raise ValueError("steps with weights of their own are all done: give halting=None")
    if len(steps) != max_steps:
        raise ValueError(f"got {len(steps)} steps for max_steps={max_steps}; give one a repetition")
    if len(set(steps)) < len(steps):
        raise ValueError("a step is there twice; give it alone, and all repetitions share it")
    first, *others = (_shape_of(step) for step in steps)
    for number, other in enumerate(others, 2):
        if other != first:
            raise ValueError(
                f"step {number} is not like the first: steps may differ in their weights alone"
            )


def _shape_of(step: UniversalTransformerStep) -> tuple[str, dict[str, torch.Size]]:
    return repr(step), {name: value.shape for name, value in step.named_parameters()}


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}; got {value!r}")
