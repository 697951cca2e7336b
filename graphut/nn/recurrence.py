"""The adaptive recurrence: one step again and again, over a frontier that shrinks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout, as_layout
from graphut.attention.transforms import in_vmap
from graphut.nn.act import WEIGHTINGS, HaltingRule
from graphut.nn.blocks import block_layouts
from graphut.nn.checks import check_feat, check_same_nodes, sources_of
from graphut.nn.context import GraphContext
from graphut.nn.finite_checks import AsyncFiniteChecks, FiniteChecks
from graphut.nn.halting import HaltingUnit
from graphut.nn.loop import AdaptiveLoop
from graphut.nn.noise import InputNoise
from graphut.nn.ponder import Ponder
from graphut.nn.signals import LearnedSignal, Signal, make_signal
from graphut.nn.step import UniversalTransformerStep

HALTED = ("copied", "frozen", "stale", "running")
HALT_FROM = ("input", "output")
COSTS = ("steps+remainder", "remainder")


class AdaptiveRecurrence(nn.Module):
    r"""A Universal Transformer step, repeated until every node has halted.

    Adaptive Computation Time (arXiv 1603.08983) for each node, as in arXiv 1807.03819, section
    2.2. A step computes the frontier, the nodes that are still active, and nothing else:

    .. math::
        y_i = x_i + P(pos_i, t), \quad x_i \leftarrow \mathrm{Step}(y)_i, \quad
        p_i = \sigma(w \cdot u_i + b), \quad out_i \leftarrow out_i + w_i x_i

    A node halts when its probabilities sum to `threshold`, or at `max_steps`. The signal is that of
    its position plus that of the step, :math:`P(pos, t) = S(pos) + S'(t)`.

    Parameters
    ----------
    step : UniversalTransformerStep, or sequence of them
        The step, with weights shared by all repetitions. Or `max_steps` steps that are alike in
        all but their weights, one a repetition, and no `halting`: a plain Transformer, whose
        layers get the signals of position and step as the repetitions do. Of steps with
        `norm="pre"`, all but the last are made with `output_norm=False`.
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
    position_signal : {"sinusoidal", "sinusoidal0"} or callable, optional
        The paper's sinusoids of positions; the same, counted from 0 in place of 1; a function or
        module that gives rows `(n, d)` for positions `(n,)`, or `(n, k)`, such as `LearnedSignal`;
        or `None`: positions are not looked at.
    step_signal : {"sinusoidal", "sinusoidal0", "learned"} or callable, optional
        The same for the steps 1, 2, ...; "learned" is a row for each of `max_steps`. With `None`
        a step does not know its number, and "copied" is "frozen".
    inject_input : bool
        Add the first states again at every step: :math:`y_i = x_i + P(pos_i, t) + x^0_i`.
    noise : InputNoise, optional
        Noise on the first states, or on those that are added again, in training.

    Raises
    ------
    ValueError
        If a name is unknown, a sequence of steps does not fit the other arguments, or there is
        noise on injected states and none are.

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

    A signal of one's own, and none for positions:

    >>> waves = lambda steps: torch.sin(steps[:, None] / torch.arange(1, 9))
    >>> layer = AdaptiveRecurrence(step, HaltingUnit(8), step_signal=waves, position_signal=None)
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
        position_signal: Signal | str | None = "sinusoidal",
        step_signal: Signal | str | None = "sinusoidal",
        inject_input: bool = False,
        noise: InputNoise | None = None,
    ) -> None:
        super().__init__()
        _one_of("halted", halted, HALTED)
        _one_of("weighting", weighting, WEIGHTINGS)
        _one_of("halt_from", halt_from, HALT_FROM)
        _one_of("cost", cost, COSTS)
        if isinstance(step, Sequence):
            _check_layers(step, halting, max_steps)
        elif isinstance(halting, HaltingUnit):
            _check_halting(step, halting)
        if noise is not None and noise.on != "first" and not inject_input:
            raise ValueError(f"noise on {noise.on!r} states needs inject_input=True")
        self.step = nn.ModuleList(step) if isinstance(step, Sequence) else step
        self.halting = halting
        self.max_steps = max_steps
        self.threshold = threshold
        self.halted = halted
        self.weighting = weighting
        self.halt_from = halt_from
        self.forced_remainder = forced_remainder
        self.cost = cost
        width = (step[0] if isinstance(step, Sequence) else step).attention.in_feats[1]
        self.position_signal = make_signal(position_signal, "position_signal", width)
        self.step_signal = make_signal(step_signal, "step_signal", width, max_steps)
        self.inject_input = inject_input
        self.noise = noise

    def reset_parameters(self) -> None:
        """Draw the parameters of step, halting unit and learned signals anew."""
        for step in self.step if isinstance(self.step, nn.ModuleList) else [self.step]:
            step.reset_parameters()  # type: ignore[operator]
        for part in (self.halting, self.position_signal, self.step_signal):
            if isinstance(part, (HaltingUnit, LearnedSignal)):
                part.reset_parameters()

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
        """Repeat the step until every node has halted.

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
            features; without it the signal is that of the step alone. They are counted from 1.
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
            Steps and remainder of each node, the cost, and the work that was done.
        list of Tensor
            With `get_attention`: `(E, num_heads)` for each step that was done, zero for edges
            into halted nodes.

        Raises
        ------
        TypeError, ValueError
            If features are not finite or do not fit the graph or the layer, if a signal has no
            row for a position or a step, if `max_steps` or `threshold` is out of range, or if a
            halting probability is not a number. On a GPU with Triton nothing waits for the device
            (but `LearnedSignal`): of numbers that are not finite, the error comes when the host
            knows of them, in this call or a later one of the layer.
        RuntimeError
            If nodes halt inside of `torch.func.vmap`.
        """
        if self.halting is not None and in_vmap():
            raise RuntimeError(
                "the nodes of each example of torch.func.vmap halt at steps of their own: call "
                "the recurrence on one graph of all examples (dgl.batch) in place of vmap"
            )
        feat = sources_of(feat)
        loop = adaptive_loop(self)
        context = self._context(loop, graph, feat, positions, cross, edge_bias)
        context.get_attention = get_attention
        checks = self._checks(loop, context, feat)
        checks.check_features(feat)
        if positions is not None:
            positions = positions.to(feat.device, non_blocking=True)
        num_dst = context.blocks[-1].num_dst if context.blocks else context.num_dst
        out, steps, remainder = loop.run(context, feat, positions, num_dst, checks=checks)
        checks.close()
        ponder = self._ponder(loop.step(1), context, steps, remainder)
        return (out, ponder, context.weights) if get_attention else (out, ponder)

    def _context(
        self,
        loop: AdaptiveLoop,
        graph: DGLGraph | EdgeLayout | Sequence[DGLGraph | EdgeLayout],
        feat: Tensor,
        positions: Tensor | None,
        cross: tuple[DGLGraph | EdgeLayout, Tensor] | None,
        edge_bias: Any,
    ) -> GraphContext:
        """Return the context of the first step, all arguments checked."""
        step, blocks = loop.step(1), []
        if isinstance(graph, Sequence):
            blocks = block_layouts(graph, step, self.max_steps, edge_bias, feat.device)
            layout = blocks[0]
        else:
            check_same_nodes(graph)
            layout = as_layout(graph).to(feat.device)
        self._check(layout, feat, positions)
        context = step.context(layout, cross)
        context.blocks, context.edge_bias = blocks, edge_bias
        return context

    def _checks(self, loop: AdaptiveLoop, context: GraphContext, feat: Tensor) -> FiniteChecks:
        """Return checks that never wait for the device, if all attention can do so too.

        If not, keys and values are written in place where the backend reads them so.
        """
        if context.blocks or context.edge_bias is not None or context.get_attention:
            return FiniteChecks()
        step = loop.step(1)
        takes_counts = step.attention.takes_counts(context.layout, feat)
        if takes_counts and step.cross_attention is not None and context.cross_layout is not None:
            takes_counts = step.cross_attention.takes_counts(context.cross_layout, feat)
        if takes_counts:
            return AsyncFiniteChecks(self, context.num_src, context.num_dst)
        context.in_place = step.attention.in_place_key_value(context.layout, feat)
        return FiniteChecks()

    def _ponder(
        self,
        step: UniversalTransformerStep,
        context: GraphContext,
        steps: Tensor,
        remainder: Tensor,
    ) -> Ponder:
        cost = remainder.new_zeros(())
        if self.halting is not None:
            cost = (remainder + steps if self.cost == "steps+remainder" else remainder).mean()
        return Ponder(
            steps=steps,
            remainder=remainder,
            cost=cost,
            max_steps=self.max_steps,
            work=context.work,
            layouts=tuple(context.blocks) or (context.layout,) * self.max_steps,
            cross_layout=context.cross_layout,
            node_flops=step.node_flops,
            key_value_flops=step.attention.key_value_flops,
            edge_flops=step.attention.edge_flops,
            encoded_flops=0 if context.encoded is None else context.encoded.flops,
        )

    @property
    def max_steps(self) -> int:
        """The number of steps at which every node halts, `T`."""
        return self._max_steps

    @max_steps.setter
    def max_steps(self, steps: int) -> None:
        if isinstance(self.step, nn.ModuleList) and steps != len(self.step):
            raise ValueError(
                f"max_steps cannot become {steps}: {len(self.step)} repetitions have weights of "
                "their own (share_weights=False), and others would have none"
            )
        self._max_steps = steps

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
        attention = adaptive_loop(self).step(1).attention
        check_feat(feat, "source", nodes, attention.in_feats[1], attention)
        if positions is not None and (positions.shape[:1] != (nodes,) or positions.dim() > 2):
            raise ValueError(
                f"positions must be ({nodes},), one a node, or ({nodes}, coordinates); got shape "
                f"{tuple(positions.shape)}"
            )

    def extra_repr(self) -> str:
        """Return the settings that `print` shows."""
        return (
            f"max_steps={self.max_steps}, threshold={self.threshold}, halted={self.halted!r}, "
            f"weighting={self.weighting!r}, halt_from={self.halt_from!r}, "
            f"inject_input={self.inject_input}, noise={self.noise}"
        )


def adaptive_loop(layer: AdaptiveRecurrence) -> AdaptiveLoop:
    """Return the loop of a recurrence with the settings that the recurrence has now."""
    steps = tuple(layer.step) if isinstance(layer.step, nn.ModuleList) else (layer.step,)
    rule = HaltingRule(layer.threshold, layer.max_steps, layer.weighting, layer.forced_remainder)
    return AdaptiveLoop(
        steps=steps,  # type: ignore[arg-type]
        halting=layer.halting,
        rule=rule,
        halted=layer.halted,
        halt_from=layer.halt_from,
        position_signal=layer.position_signal,
        step_signal=layer.step_signal,
        inject_input=layer.inject_input,
        noise=layer.noise if layer.training else None,
    )


def _check_halting(step: UniversalTransformerStep, halting: HaltingUnit) -> None:
    read, width = halting.in_feats, step.attention.in_feats[1]
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
    if any(step.output_norm is not None for step in steps[:-1]):
        raise ValueError(
            "only the last of several steps normalises the last states: make the others with "
            "output_norm=False"
        )
    first, *others = (_shape_of(step) for step in steps)
    for number, other in enumerate(others, 2):
        if other != first:
            raise ValueError(
                f"step {number} is not like the first: steps may differ in their weights alone"
            )


def _shape_of(step: UniversalTransformerStep) -> tuple[list[str], dict[str, torch.Size]]:
    parts = [repr(part) for name, part in step.named_children() if name != "output_norm"]
    weights = {
        name: weight.shape
        for name, weight in step.named_parameters()
        if not name.startswith("output_norm.")
    }
    return [step.extra_repr(), *parts], weights


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}; got {value!r}")
