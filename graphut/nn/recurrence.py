"""The adaptive recurrence: one step again and again, over a frontier that shrinks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn
from torch.compiler import is_compiling

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout, as_layout
from graphut.attention.checks import is_capturing
from graphut.attention.transforms import in_vmap, is_exporting
from graphut.nn.checks import check_feat, check_same_nodes, check_sharding, sources_of
from graphut.nn.context import GraphContext
from graphut.nn.finite_checks import FiniteChecks
from graphut.nn.frontier import HaltingFrontier
from graphut.nn.gpu.async_checks import AsyncFiniteChecks
from graphut.nn.gpu.frontier import gpu_frontier
from graphut.nn.halting import HaltingUnit, ScheduledHalting
from graphut.nn.loop import run_loop
from graphut.nn.loop_state import FrontierRows, LoopOutput, LoopSettings
from graphut.nn.noise import InputNoise
from graphut.nn.ponder import AttentionRecord, Ponder
from graphut.nn.quantized import Quantized
from graphut.nn.rules import ACT, BatchIndex, EventDriven, FixedDepth, HaltingRule
from graphut.nn.rules.base import batch_index, states_read
from graphut.nn.signals import LearnedSignal, Signal, make_signal
from graphut.nn.step import HookedStep, UniversalTransformerStep
from graphut.nn.transition import SeparableConvTransition
from graphut.nn.waking import Start, check_event_driven, start_of_changes

HALTED = ("copied", "frozen", "stale", "running")


class AdaptiveRecurrence(nn.Module):
    r"""A Universal Transformer step, repeated until every node has halted.

    Adaptive Computation Time (arXiv 1603.08983) for each node, as in arXiv 1807.03819, section
    2.2. A step computes the frontier, the nodes that are still active, and nothing else:

    .. math::
        y_i = x_i + P(pos_i, t), \quad x_i \leftarrow \mathrm{Step}(y)_i, \quad
        p_i = \sigma(w \cdot u_i + b), \quad out_i \leftarrow out_i + w_i x_i

    A node halts when the halting rule says so, or at `max_steps`. The signal is that of its
    position plus that of the step, :math:`P(pos, t) = S(pos) + S'(t)`.

    Parameters
    ----------
    step : UniversalTransformerStep, or sequence of them
        The step, with weights shared by all repetitions. Or `max_steps` steps that are alike in
        all but their weights, one a repetition, and no `halting`: a plain Transformer, whose
        layers get the signals of position and step as the repetitions do. Of steps with
        `norm="pre"`, all but the last are made with `output_norm=False`.
    halting : HaltingUnit or ScheduledHalting, optional
        Gives each active node's halting probability.
    rule : HaltingRule, optional
        When a node halts in training, and how its states become its output; may be changed later.
        The default is `ACT()`, or, without a halting module, `FixedDepth()`: all nodes take
        `max_steps` steps and the last state is the result.
    evaluation_rule : HaltingRule, optional
        The same in evaluation, after `layer.eval()`; may be changed later. The default is
        `rule.for_evaluation()`, which for most rules is the rule itself.
    max_steps : int
        The cap, `T`; may be changed after training, but not where each repetition has a step of
        its own.
    halted : {"copied", "frozen", "stale", "running"}
        The part of a halted node that its neighbours see: its final state with the signal of the
        present step; with the signal of the step after its last; the keys and values of its last
        step; or a state that goes on being transformed.
    position_signal : {"sinusoidal", "sinusoidal0"} or callable, optional
        The paper's sinusoids of positions; the same, counted from 0 in place of 1; a function or
        module that gives rows `(n, d)` for positions `(n,)`, or `(n, k)`, such as `LearnedSignal`;
        or `None`: positions are not looked at.
    step_signal : {"sinusoidal", "sinusoidal0", "learned"} or callable, optional
        The same for the steps 1, 2, ...; "learned" is a row for each of `max_steps`. With `None`
        a step does not know its number, and "copied" is "frozen".
    inject_input : bool
        Add the first states again at every step: :math:`y_i = x_i + P(pos_i, t) + x^0_i`.
    noise : InputNoise or sequence of InputNoise, optional
        Noise in training, for each place at most once.
    quantize : Quantized, optional
        Round every state to a few values. The first states are rounded too, and the injected ones
        are not; noise on first states is added after rounding.
    checkpoint_steps : bool
        Keep only the states between steps for the backward pass, which does each step again
        (arXiv 1604.06174): less memory for more time. Each step projects all nodes and the
        encoder's output anew. Without gradients nothing changes, and a compiled program keeps
        what the compiler chooses. May be changed later.

    Raises
    ------
    ValueError
        If a name is unknown, a sequence of steps or a rule does not fit the other arguments, or
        there is noise on injected states and none are.

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
        rule: HaltingRule | None = None,
        evaluation_rule: HaltingRule | None = None,
        max_steps: int = 8,
        halted: str = "copied",
        position_signal: Signal | str | None = "sinusoidal",
        step_signal: Signal | str | None = "sinusoidal",
        inject_input: bool = False,
        noise: InputNoise | Sequence[InputNoise] | None = None,
        quantize: Quantized | None = None,
        checkpoint_steps: bool = False,
    ) -> None:
        super().__init__()
        if halted not in HALTED:
            raise ValueError(
                f"halted must be one of {', '.join(map(repr, HALTED))}; got {halted!r}"
            )
        if isinstance(step, nn.ModuleList):
            step = [*step]
        if isinstance(step, Sequence):
            _check_layers(step, halting, max_steps)
        width = (step[0] if isinstance(step, Sequence) else step).attention.in_feats[1]
        if isinstance(halting, HaltingUnit) and halting.in_feats != width:
            raise ValueError(
                f"the halting unit reads {halting.in_feats} features, but the step's states have "
                f"{width}"
            )
        places = [kind.on for kind in kinds_of_noise(noise)]
        if len(set(places)) < len(places):
            raise ValueError(f"noise is given twice for one place: {', '.join(places)}")
        if not inject_input and set(places) - {"first"}:
            raise ValueError(f"noise on {places[-1]!r} states needs inject_input=True")
        self.step = nn.ModuleList(step) if isinstance(step, Sequence) else step
        self.halting = halting
        self.max_steps = max_steps
        self.halted = halted
        self.position_signal = make_signal(position_signal, "position_signal", width)
        self.step_signal = make_signal(step_signal, "step_signal", width, max_steps)
        self.inject_input = inject_input
        self.noise = noise
        self.quantize = quantize
        self.checkpoint_steps = checkpoint_steps
        self._set_rules(rule, evaluation_rule)

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
        edge_feat: Any = None,
        graph_ids: Tensor | None = None,
        get_attention: bool = False,
        get_steps: bool = False,
    ) -> tuple[Any, ...]:
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
        edge_feat : Tensor or list of Tensor, optional
            `(E, edge_dim)`, for self-attention with `edge_dim`; for a list of blocks one each.
        graph_ids : Tensor, optional
            `(N_dst,)` int64, the graph of each node, for a rule that asks for it; without it, as
            in the DGL batch.
        get_attention : bool
            Also return self-attention's weights, and keep more in the record.
        get_steps : bool
            Also return the rows of every step, for a loss at each of them.

        Returns
        -------
        Tensor
            `(N_dst, d)` output states; of a list, those of the last block's destinations.
        Ponder
            Steps and remainder of each node, the cost, and the work that was done. With
            `get_attention` also the weights of all attention, and the halting probabilities.
        list of Tensor
            With `get_attention`: `(E, num_heads)` for each step that was done, zero for edges
            into halted nodes.
        list of FrontierRows
            With `get_steps`: for each step that was done the ids `nodes` `(A,)` of the active
            nodes, their new `states` `(A, d)`, the rule's `weights` `(A,)` of these states, and
            the `probability` `(A,)` of halting. Where the output is the state at halting, the
            weight is 1 for nodes that halt, and 0 for others. All but `nodes` carry gradients.

        Raises
        ------
        TypeError, ValueError
            If features are not finite or do not fit the graph or the layer, if a signal has no
            row for a position or a step, if `max_steps` is out of range, if the rule needs what is
            not there, or if a halting probability is not a number from 0 to 1. On a GPU with
            Triton nothing waits for the device (but `LearnedSignal`): of wrong numbers, the error
            comes when the host knows of them, in this call or a later one of the layer.
        RuntimeError
            If nodes halt inside of `torch.func.vmap`, or while a CUDA graph is recorded; or if
            `fully_shard` was called on the step and there are several processes.

        Examples
        --------
        A loss at every step, which costs what is active:

        >>> import torch
        >>> from torch.nn.functional import cross_entropy
        >>> from graphut.nn import AdaptiveRecurrence, HaltingUnit, MultiHeadAttention, PonderNet
        >>> from graphut.nn import PositionwiseTransition, UniversalTransformerStep
        >>> from graphut.topology import Complete
        >>> step = UniversalTransformerStep(MultiHeadAttention(8, 2), PositionwiseTransition(8, 32))
        >>> layer = AdaptiveRecurrence(step, HaltingUnit(8), rule=PonderNet())
        >>> x, label = torch.randn(5, 8), torch.tensor([0, 1, 1, 0, 1])
        >>> out, ponder, steps = layer(Complete().graph([3, 2]), x, get_steps=True)
        >>> loss = torch.zeros(5)
        >>> for rows in steps:
        ...     each = cross_entropy(rows.states, label[rows.nodes], reduction="none")
        ...     loss = loss.index_add(0, rows.nodes, rows.weights * each)
        >>> loss.shape
        torch.Size([5])
        """
        if not isinstance(self.active_rule, FixedDepth) and in_vmap():
            raise RuntimeError(
                "the nodes of each example of torch.func.vmap halt at steps of their own: call "
                "the recurrence on one graph of all examples (dgl.batch) in place of vmap"
            )
        if not isinstance(self.active_rule, FixedDepth):
            check_sharding(self.step, self.halting)
        runs_all = self.halted == "running" and not isinstance(self.active_rule, EventDriven)
        halts = not (isinstance(self.active_rule, FixedDepth) or runs_all)
        if halts and is_capturing():
            raise RuntimeError(
                "a CUDA graph cannot record how many nodes halt at each step: let the rule be "
                "FixedDepth() or halted='running', or call the layer outside of the graph"
            )
        if halts and is_exporting():
            raise RuntimeError(
                "torch.export cannot record how many nodes halt at each step: let the rule be "
                "FixedDepth() or halted='running'"
            )
        if halts and is_compiling():
            options: dict[str, Any] = {"positions": positions, "cross": cross}
            options |= {"edge_bias": edge_bias, "edge_feat": edge_feat, "graph_ids": graph_ids}
            options |= {"get_attention": get_attention, "get_steps": get_steps}
            return _uncompiled(self, graph, feat, **options)
        of_edges = {"edge_bias": edge_bias, "edge_feat": edge_feat}
        return self._run(
            graph,
            sources_of(feat),
            None,
            positions=positions,
            cross=cross,
            graph_ids=graph_ids,
            get_attention=get_attention,
            get_steps=get_steps,
            **of_edges,
        )

    plain_forward = forward  # for `is_hooked`

    def resume(
        self,
        shown: Tensor,
        graph: DGLGraph | EdgeLayout,
        feat: Tensor,
        *,
        changed: Tensor | None = None,
        edges_into: Tensor | None = None,
        **options: Any,
    ) -> tuple[Any, ...]:
        """Continue an event-driven run after its graph or its features have changed.

        The first round computes the nodes with new features, new nodes, their out-neighbours, and
        the destinations of changed edges. Other nodes compute only if a change reaches them. A
        model finds the same states as in a new run if its fixed point does not depend on where it
        starts; training from random first states (`InputNoise(2.0)`) helps.

        Making keys and values of all nodes takes one projection of each node; after that, a round
        costs what its frontier costs.

        Parameters
        ----------
        shown : Tensor
            `(M, d)`, `Ponder.shown` of the earlier call, without the rows of removed nodes. Nodes
            of the graph from `M` on are new.
        graph, feat
            The present graph, and the features of all its nodes, as in `forward`.
        changed : Tensor, optional
            Ids, int64, of nodes whose features, positions or injected states are new.
        edges_into : Tensor, optional
            Ids, int64, of the destinations of edges that were added, removed or changed.
        **options
            The other arguments of `forward`.

        Returns
        -------
        tuple
            As `forward`; the record counts the work of this call only.

        Raises
        ------
        TypeError, ValueError
            If the active rule is not `EventDriven`, `shown` or an id does not fit the graph, or
            `forward` would raise.

        Examples
        --------
        >>> import torch
        >>> from graphut.nn import EventDriven, MultiHeadAttention, PositionwiseTransition
        >>> from graphut.nn import Quantized, UniversalTransformerStep
        >>> from graphut.topology import Window
        >>> step = UniversalTransformerStep(MultiHeadAttention(8, 2), PositionwiseTransition(8, 32))
        >>> layer = AdaptiveRecurrence(step, rule=EventDriven(max_rounds=1000), step_signal=None,
        ...                            inject_input=True, quantize=Quantized(levels=1))
        >>> graph, x = Window(1).graph([100]), torch.randn(100, 8)
        >>> out, ponder = layer(graph, x)
        >>> x[50] = torch.randn(8)
        >>> out, ponder = layer.resume(ponder.shown, graph, x, changed=torch.tensor([50]))
        >>> ponder.frontier_sizes[0]
        tensor(3)
        """
        if not isinstance(self.active_rule, EventDriven):
            raise ValueError(
                f"resume is for the rule EventDriven, but the rule is {self.active_rule}"
            )
        if isinstance(graph, Sequence):
            raise ValueError("resume takes one graph, not a list of blocks")
        layout = as_layout(graph).to(feat.device)
        start = start_of_changes(layout, shown, feat, changed, edges_into)
        return self._run(graph, feat, start, **options)

    def _run(
        self,
        graph: DGLGraph | EdgeLayout | Sequence[DGLGraph | EdgeLayout],
        feat: Tensor,
        start: Start | None,
        *,
        positions: Tensor | None = None,
        cross: tuple[DGLGraph | EdgeLayout, Tensor] | None = None,
        edge_bias: Any = None,
        edge_feat: Any = None,
        graph_ids: Tensor | None = None,
        get_attention: bool = False,
        get_steps: bool = False,
    ) -> tuple[Any, ...]:
        """Repeat the step on checked arguments."""
        settings = loop_settings(self)
        context = self._context(settings, graph, feat, positions, cross, edge_bias, edge_feat)
        context.get_attention = get_attention
        checks = FiniteChecks() if get_steps else self._checks(settings, context, feat)
        checks.check_features(feat)
        if positions is not None:
            positions = positions.to(feat.device, non_blocking=True)
        num_dst = context.blocks[-1].num_dst if context.blocks else context.num_dst
        step = settings.step(1)
        if settings.calls_steps:
            again = settings.checkpoint_steps
            hooked: Any = [HookedStep(each, checkpointed=again) for each in settings.steps]
            settings = replace(settings, steps=hooked)
        rows: list[FrontierRows] | None = [] if get_steps or get_attention else None
        waits = not isinstance(checks, AsyncFiniteChecks)
        found = run_loop(
            settings,
            context,
            feat,
            positions,
            num_dst,
            batch=self._batch(context, graph_ids),
            checks=checks,
            halting_frontier=HaltingFrontier if waits else gpu_frontier,
            rows=rows,
            start=start,
        )
        checks.close()
        ponder = self._ponder(step, context, found)
        if get_attention and not context.blocks:
            ponder = replace(ponder, **_seen_inside(context, rows or []))
        asked = ([context.weights] if get_attention else []) + ([rows] if get_steps else [])
        return found.out, ponder, *asked

    def _context(
        self,
        settings: LoopSettings,
        graph: DGLGraph | EdgeLayout | Sequence[DGLGraph | EdgeLayout],
        feat: Tensor,
        positions: Tensor | None,
        cross: tuple[DGLGraph | EdgeLayout, Tensor] | None,
        edge_bias: Any,
        edge_feat: Any,
    ) -> GraphContext:
        """Return the context of the first step, all arguments checked."""
        step, blocks = settings.step(1), []
        if isinstance(graph, Sequence):
            if isinstance(settings.rule, EventDriven):
                raise ValueError(f"{settings.rule} needs one graph, not a list of blocks")
            of_edges = {"edge_bias": edge_bias, "edge_feat": edge_feat}
            blocks = _block_layouts(graph, step, self.max_steps, of_edges, feat.device)
            layout = blocks[0]
        else:
            check_same_nodes(graph)
            layout = as_layout(graph).to(feat.device)
        _check_nodes(step, layout, feat, positions)
        context = step.context(layout, cross)
        context.blocks, context.edge_bias, context.edge_feat = blocks, edge_bias, edge_feat
        return context

    def _checks(self, settings: LoopSettings, context: GraphContext, feat: Tensor) -> FiniteChecks:
        """Return checks that never wait for the device, if all attention can do so too.

        If not, keys and values are written in place where the backend reads them so.
        """
        if is_capturing():  # numbers are not there yet
            return FiniteChecks()
        by_edge = context.edge_bias is not None or context.edge_feat is not None
        if context.blocks or by_edge or context.get_attention or settings.calls_steps:
            return FiniteChecks()
        events = isinstance(settings.rule, EventDriven)
        if not events and all(step.takes_counts(context, feat) for step in settings.steps):
            return AsyncFiniteChecks(self, context.num_src, context.num_dst)
        # Steps with weights of their own may differ, such as in training and evaluation.
        tables = [s.attention.in_place_key_value(context.layout, feat) for s in settings.steps]
        context.in_place = tables[0] if all(table is not None for table in tables) else None
        return FiniteChecks()

    def _batch(self, context: GraphContext, graph_ids: Tensor | None) -> BatchIndex | None:
        """Return the graphs of the nodes, if the rule needs them."""
        rule = self.active_rule
        if isinstance(rule, EventDriven):  # one graph needs no record by graph
            if graph_ids is None and len(context.layout.dst_lengths) == 1:
                return None
        elif not rule.needs_members:
            return None
        if context.blocks:
            raise ValueError(f"{rule} needs whole graphs, and got sampled blocks")
        batch = context.layout.cached(batch_index)
        return batch if graph_ids is None else batch.renamed(graph_ids)

    def _ponder(
        self, step: UniversalTransformerStep, context: GraphContext, found: LoopOutput
    ) -> Ponder:
        record = found.waking
        repetitions = self.max_steps if record is None else len(record.frontier_sizes)
        return Ponder(
            steps=found.steps,
            remainder=found.remainder,
            cost=found.cost.mean() if found.cost.shape[0] else found.cost.sum(),
            max_steps=repetitions if record is not None else self.max_steps,
            work=context.work,
            layouts=tuple(context.blocks) or (context.layout,) * repetitions,
            cross_layout=context.cross_layout,
            node_flops=step.node_flops,
            key_value_flops=step.attention.key_value_flops,
            edge_flops=step.attention.edge_flops,
            encoded_flops=0 if context.encoded is None else context.encoded.flops,
            waking=record,
        )

    @property
    def rule(self) -> HaltingRule:
        """The halting rule in training; set to `None`, it is the default again."""
        return self._rule or self._usual_rule

    @rule.setter
    def rule(self, rule: HaltingRule | None) -> None:
        self._set_rules(rule, self._evaluation_rule)

    @property
    def evaluation_rule(self) -> HaltingRule:
        """The halting rule in evaluation; set to `None`, it is `rule.for_evaluation()` again."""
        return self._evaluation_rule or self.rule.for_evaluation()

    @evaluation_rule.setter
    def evaluation_rule(self, rule: HaltingRule | None) -> None:
        self._set_rules(self._rule, rule)

    @property
    def active_rule(self) -> HaltingRule:
        """The halting rule of the present mode, `layer.train()` or `layer.eval()`."""
        return self.rule if self.training else self.evaluation_rule

    @property
    def _usual_rule(self) -> HaltingRule:
        return FixedDepth() if self.halting is None else ACT()

    def _set_rules(self, rule: HaltingRule | None, evaluation_rule: HaltingRule | None) -> None:
        given = [each for each in (rule or self._usual_rule, evaluation_rule) if each is not None]
        for each in given:
            if not isinstance(each, HaltingRule):
                raise TypeError(
                    f"a rule is a HaltingRule such as ACT(), got {each!r}; parse_rule('act') makes "
                    "one of a text"
                )
            if each.uses_probability and self.halting is None:
                raise ValueError(f"{each} needs a halting module, such as HaltingUnit(d)")
            if isinstance(each, EventDriven):
                check_event_driven(each, self.step, self.halting, self.step_signal)
            if isinstance(self.step, nn.ModuleList) and not isinstance(each, FixedDepth):
                raise ValueError(f"steps with weights of their own are all done: {each} cannot act")
        if self.halting is not None and len(states_read(given)) > 1:
            raise ValueError(
                "the halting module would read the input of a step under one rule and the output "
                f"under the other: give one halt_from to {given[0]} and {given[1]}"
            )
        self._rule, self._evaluation_rule = rule, evaluation_rule

    @property
    def max_steps(self) -> int:
        """The number of steps at which every node halts, `T`."""
        return self._max_steps

    @max_steps.setter
    def max_steps(self, steps: int) -> None:
        if isinstance(steps, bool) or not isinstance(steps, Integral) or steps < 1:
            raise ValueError(f"max_steps must be a whole number, at least 1; got {steps!r}")
        if isinstance(self.step, nn.ModuleList) and steps != len(self.step):
            raise ValueError(
                f"max_steps cannot become {steps}: {len(self.step)} repetitions have weights of "
                "their own (share_weights=False), and others would have none"
            )
        self._max_steps: int = int(steps)

    def extra_repr(self) -> str:
        """Return the settings that `print` shows."""
        rules = f"rule={self.rule}"
        if self.evaluation_rule != self.rule:
            rules += f", evaluation_rule={self.evaluation_rule}"
        return (
            f"max_steps={self.max_steps}, halted={self.halted!r}, {rules}, "
            f"inject_input={self.inject_input}, noise={self.noise}"
            + (f", quantize={self.quantize}" if self.quantize else "")
        )


def _uncompiled(layer: AdaptiveRecurrence, *args: Any, **options: Any) -> tuple[Any, ...]:
    """Call a layer outside of the program that `torch.compile` makes."""
    return torch.compiler.disable(layer.forward)(*args, **options)


# The decorator torch.compiler.disable does no more, but imports the compiler.
_uncompiled._torchdynamo_disable = True  # type: ignore[attr-defined]
_uncompiled._torchdynamo_disable_msg = (  # type: ignore[attr-defined]
    "the host asks at each step which nodes halt; not so with FixedDepth or halted='running'"
)


def loop_settings(layer: AdaptiveRecurrence) -> LoopSettings:
    """Return the present settings of a recurrence for the loop."""
    steps = tuple(layer.step) if isinstance(layer.step, nn.ModuleList) else (layer.step,)
    rule = layer.active_rule
    if isinstance(layer.halting, ScheduledHalting) and isinstance(rule, ACT):
        _check_schedule(layer.halting, rule, layer.max_steps)
    # Also under a rule without probabilities, the halting module reads what it learned from.
    readers = [r for r in (rule, layer.rule, layer.evaluation_rule) if r.uses_probability]
    if isinstance(rule, EventDriven):
        check_event_driven(rule, layer.step, layer.halting, layer.step_signal)
    return LoopSettings(
        steps=steps,  # type: ignore[arg-type]
        halting=layer.halting,
        halt_from=(readers or [rule])[0].halt_from,
        rule=rule,
        max_steps=layer.max_steps,
        halted=layer.halted,
        position_signal=layer.position_signal,
        step_signal=layer.step_signal,
        inject_input=layer.inject_input,
        noise=kinds_of_noise(layer.noise) if layer.training else (),
        quantize=layer.quantize,
        state_noise=layer.quantize.noise if layer.quantize and layer.training else 0.0,
        checkpoint_steps=layer.checkpoint_steps and torch.is_grad_enabled() and not is_compiling(),
    )


def kinds_of_noise(noise: InputNoise | Sequence[InputNoise] | None) -> Sequence[InputNoise]:
    """Return the noise argument of a recurrence as a sequence."""
    if noise is None:
        return ()
    return (noise,) if isinstance(noise, InputNoise) else tuple(noise)


def _check_schedule(halting: ScheduledHalting, rule: ACT, max_steps: int) -> None:
    """Raise if a node would halt before its step in the schedule."""
    before_last = halting.share * (min(halting.longest, max_steps) - 1)
    if before_last >= 0.999 * rule.threshold:
        raise ValueError(
            f"the schedule has up to {halting.longest} steps of probability {halting.share}, which "
            f"reach the threshold {rule.threshold} too early: give ScheduledHalting a smaller share"
        )


def _seen_inside(context: GraphContext, rows: Sequence[FrontierRows]) -> dict[str, Any]:
    """Return the fields of a `Ponder` that are asked for with `get_attention`."""
    seen: dict[str, Any] = {"attention": AttentionRecord(context.layout, context.weights)}
    if context.cross_layout is not None:
        seen["cross_attention"] = AttentionRecord(context.cross_layout, context.cross_weights)
    found = [(step.nodes, step.probability) for step in rows if step.probability is not None]
    if found:
        nothing = found[0][1].new_full((context.num_dst,), torch.nan)
        seen["halting"] = torch.stack([nothing.index_copy(0, *step) for step in found])
    return seen


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


def _check_nodes(
    step: UniversalTransformerStep, layout: EdgeLayout, feat: Tensor, positions: Tensor | None
) -> None:
    nodes = layout.num_src
    if layout.num_dst > nodes:
        raise ValueError(
            f"the graph has {layout.num_dst} destination and {nodes} source nodes; a recurrence "
            "needs every destination to be a source too"
        )
    check_feat(feat, "source", nodes, step.attention.in_feats[1], step.attention)
    if positions is not None and (positions.shape[:1] != (nodes,) or positions.dim() > 2):
        raise ValueError(
            f"positions must be ({nodes},), one a node, or ({nodes}, coordinates); got shape "
            f"{tuple(positions.shape)}"
        )


def _shape_of(step: UniversalTransformerStep) -> tuple[list[str], dict[str, torch.Size]]:
    parts = [repr(part) for name, part in step.named_children() if name != "output_norm"]
    weights = {
        name: weight.shape
        for name, weight in step.named_parameters()
        if not name.startswith("output_norm.")
    }
    return [step.extra_repr(), *parts], weights


def _block_layouts(
    blocks: Sequence[DGLGraph | EdgeLayout],
    step: UniversalTransformerStep,
    max_steps: int,
    of_edges: dict[str, Sequence[Tensor] | None],
    device: torch.device,
) -> list[EdgeLayout]:
    """Return the layouts of sampled blocks, one for each repetition of `step`.

    A block's destinations are the first of its sources, and the sources of the next block: nodes
    keep their numbers, and become fewer. `of_edges` are arguments with an entry for each block.
    """
    layouts = [as_layout(block) for block in blocks]
    if len(blocks) != max_steps:
        raise ValueError(
            f"got {len(blocks)} blocks for max_steps={max_steps}; sample one a step, as "
            f"dgl.dataloading.NeighborSampler([10] * {max_steps}) does"
        )
    for name, given in of_edges.items():
        if given is not None and len(given) != len(blocks):
            raise ValueError(f"{name} has {len(given)} entries for {len(blocks)} blocks")
    if step.cross_attention is not None:
        raise ValueError("a decoder step takes one graph for all steps, not a list of blocks")
    if isinstance(step.transition, SeparableConvTransition):
        raise ValueError("a convolution reads along sentences, and blocks have none")
    for block in blocks:
        check_same_nodes(block)
    layouts = [layout.to(device) for layout in layouts]
    for t, (block, following) in enumerate(pairwise(layouts)):
        if block.num_dst != following.num_src:
            raise ValueError(
                f"block {t} has {block.num_dst} destinations, but block {t + 1} has "
                f"{following.num_src} sources; they must be the same nodes"
            )
    return layouts
