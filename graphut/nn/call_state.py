"""The state of one call of a recurrence: what its steps read, compute and record."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from graphut.attention import EdgeLayout
from graphut.attention.argument_checks import skip_checks
from graphut.attention.key_value_memory import KeyValueMemory
from graphut.nn.attention import MultiHeadAttention
from graphut.nn.finite_checks import FiniteChecks, check_probability_shape
from graphut.nn.hetero_attention import HeteroAttention
from graphut.nn.module_checks import is_hooked
from graphut.nn.noise import Noise, draw_noise, with_noise
from graphut.nn.plan import Plan
from graphut.nn.ponder import FlopCount
from graphut.nn.rules.base import BatchIndex, RuleState, StepRows
from graphut.nn.signals import encode, step_signals
from graphut.nn.transition import PositionwiseTransition, Transition


class LoopOutput(NamedTuple):
    """The results of the adaptive loop, for all nodes."""

    out: Tensor  # (N, d) output states
    steps: Tensor  # (N,) int64
    remainder: Tensor  # (N,)
    cost: Tensor  # (N,) ponder cost of each node
    waking: dict[str, Any] | None = None  # more fields of `Ponder`, with `EventDriven`


class FrontierRows(NamedTuple):
    """The `A` active nodes of one step, and their new states."""

    nodes: Tensor  #: (A,) int64, ids of the active nodes
    states: Tensor  #: (A, d) new states, after the output norm if there is one
    #: (A,) weights of these states in the output; with `EventDriven` 1 for states that changed
    weights: Tensor
    probability: Tensor | None  #: (A,) halting probabilities; None without a halting module
    #: (A,) mean square change of the state, for a penalty on change; with `norm="pre"` it is
    #: divided by the mean square of the state before the step
    change: Tensor
    #: (A,) bool, nodes that the rule itself halts, even without a limit; None with `EventDriven`
    halts: Tensor | None = None


class EncoderOutput:
    """The encoder's output `(N_src, d)`, and a cache of its keys and values for each layer."""

    def __init__(self, feat: Tensor) -> None:
        self.feat = feat
        self.flops = 0  # floating-point operations of all projections so far
        self._projected: dict[MultiHeadAttention, Tensor] = {}
        self._memories: dict[MultiHeadAttention, KeyValueMemory] = {}

    def count(self, layer: MultiHeadAttention) -> None:
        """Add to `flops` the operations for one projection of the encoder's output by `layer`."""
        self.flops += self.feat.shape[0] * layer.key_value_flops

    def key_value(self, layer: MultiHeadAttention) -> Tensor:
        """Return the keys and values, `(N_src, 2 * H * D)`, of the encoder's output for `layer`."""
        if layer not in self._projected:
            self.count(layer)
            self._projected[layer] = layer.project(self.feat)
        return self._projected[layer]

    def memory(self, layer: MultiHeadAttention) -> KeyValueMemory:
        """Return the result of `key_value` in a `KeyValueMemory`, which nothing overwrites."""
        if layer not in self._memories:
            self._memories[layer] = KeyValueMemory(layer.num_heads)
            self._memories[layer].write(None, self.key_value(layer))
        return self._memories[layer]


@dataclass
class GraphContext:
    """Edges, keys, values and options that the steps of one call of a recurrence share.

    With sampled blocks, the edges are replaced in each step by the edges of its block. A decoder
    with a key/value cache uses a subclass.
    """

    layout: EdgeLayout  # edges of self-attention in this step
    cross_layout: EdgeLayout | None = None  # edges from the encoder's nodes to a decoder's
    encoded: EncoderOutput | None = None
    blocks: Sequence[EdgeLayout] = ()  # the edges of each step, if these are sampled blocks
    # The options of self-attention that begin with `edge_`; lists for blocks.
    of_edges: dict[str, Any] = field(default_factory=dict)
    get_attention: bool = False  # whether to keep the attention weights
    # (N_src, d), input of self-attention, if hooks require a call of the whole layer.
    sources: Tensor | None = None
    in_place: KeyValueMemory | None = None  # replaces `key_value` where the backend supports it
    cross_in_place: bool = False  # the same, for keys and values of the encoder's output
    owns_table: bool = False  # whether `key_value` may be changed in place, without gradients
    frontier: Tensor | None = None  # (A,) ids of the active nodes; None for all
    value_shift: Tensor | None = None  # (d,) to be added to every value
    key_value: Tensor | None = field(default=None, init=False)  # (N_src, 2 * H * D)
    combined: Tensor | None = field(default=None, init=False)  # (N, d), input of a convolution
    weights: list[Tensor] = field(default_factory=list, init=False)  # (E, H) of each attention
    cross_weights: list[Tensor] = field(default_factory=list, init=False)  # (E_cross, H)
    work: FlopCount = field(init=False)
    _step: int = field(default=1, init=False)

    def __post_init__(self) -> None:
        self.work = FlopCount()  # torch.compile does not trace a default_factory

    @property
    def num_src(self) -> int:
        """Number of nodes with keys and values."""
        return self.layout.num_src

    @property
    def num_dst(self) -> int:
        """Number of nodes that can be active."""
        return self.layout.num_dst

    def begin_step(self, step: int) -> None:
        """Begin step `step`, from 1; with sampled blocks, switch to the block of this step."""
        self._step = step
        if self.blocks:
            self.layout = self.blocks[step - 1]
            if self.key_value is not None:
                self.key_value = self.key_value[: self.num_src]

    def project(self, step: Any, nodes: Tensor | None, rows: Tensor) -> None:
        """Project the states `rows` of `nodes` with `step`, and store the keys and values."""
        by_type = isinstance(getattr(step, "attention", None), HeteroAttention)
        self.write(nodes, step.project(rows, *((self.layout, nodes) if by_type else ())))

    def write(self, nodes: Tensor | None, key_value: Tensor) -> None:
        """Store the keys and values, `(A, 2 * H * D)`, of `nodes`, `(A,)`; None is all nodes."""
        self.work.projections.append((self.num_src, nodes))
        if self.in_place is not None:
            self.in_place.write(nodes, key_value)
        elif self.owns_table and self.key_value is not None and nodes is not None:
            self.key_value.index_copy_(0, nodes, key_value)
        elif self.owns_table:  # a hook may keep the tensor that the layer returned
            self.key_value = key_value.clone()
        else:
            self.key_value = updated(self.key_value, nodes, key_value)

    def attend(self, layer: MultiHeadAttention, rows: Tensor) -> Tensor:
        """Return the self-attention output of the active nodes, given their features `(A, d)`."""
        layout, frontier = self.layout, self.frontier
        self.work.attended.append((layout, frontier))
        if self.in_place is not None and self.sources is None:
            return layer.attend_memory(layout, rows, self.in_place, frontier, self.value_shift)
        options: dict[str, Any] = {"frontier": frontier, "get_attention": self.get_attention}
        for name, value in self.of_edges.items():
            is_list = not isinstance(value, Tensor | None)
            options[name] = value[self._step - 1] if is_list else value
        if self.sources is not None:
            return self._keep(layer(layout, self.sources, **options), self.weights)
        options["value_shift"] = self.value_shift
        key_value: Any = self.key_value
        return self._keep(layer.attend(layout, rows, key_value, **options), self.weights)

    def cross_attend(self, layer: MultiHeadAttention, rows: Tensor) -> Tensor:
        """Return the cross-attention output of the active nodes, given their features `(A, d)`."""
        assert self.cross_layout is not None and self.encoded is not None
        self.work.cross_attended.append((self.cross_layout, self.frontier))
        if self.cross_in_place:
            memory = self.encoded.memory(layer)
            return layer.attend_memory(self.cross_layout, rows, memory, self.frontier)
        options: Any = {"frontier": self.frontier, "get_attention": self.get_attention}
        if is_hooked(layer):  # hooks require a call with the rows of all nodes
            table = rows
            if self.frontier is not None:
                zeros = rows.new_zeros(self.num_dst, rows.shape[1])
                table = zeros.index_copy(0, self.frontier, rows)
            self.encoded.count(layer)
            result = layer(self.cross_layout, (self.encoded.feat, table), **options)
        else:
            key_value = self.encoded.key_value(layer)
            result = layer.attend(self.cross_layout, rows, key_value, **options)
        return self._keep(result, self.cross_weights)

    def feed_forward(self, transition: Transition, rows: Tensor) -> Tensor:
        """Return the feed-forward output of the active nodes, `(A, d)`, given its inputs `rows`."""
        if isinstance(transition, PositionwiseTransition):
            return transition(self.layout, rows)
        self.combined = updated(self.combined, self.frontier, rows)
        return transition(self.layout, self.combined[: self.num_dst], frontier=self.frontier)

    def _keep(self, result: Any, record: list[Tensor]) -> Tensor:
        """Return the output of an attention layer; append attention weights to `record`, if any."""
        out, weights = result if isinstance(result, tuple) else (result, None)
        if weights is not None:
            record.append(weights)
        return out


class LoopState:
    """The plan of one call of a recurrence, and the tensors that all its steps share."""

    trusts_arguments = False  # whether attention may skip its checks

    def __init__(
        self,
        plan: Plan,
        context: GraphContext,
        feat: Tensor,
        positions: Tensor | None,
        num_dst: int,  # number of nodes in the result
        *,
        batch: BatchIndex | None = None,
        checks: FiniteChecks | None = None,
        rows: list[FrontierRows] | None = None,  # receives the rows of each step
        fill_cache: bool = False,  # whether later tokens of a decoder may take more steps
        exchange: Any = None,  # with other processes, if each has a part of the graph
    ) -> None:
        self.plan, self.context, self.num_dst = plan, context, num_dst
        self.batch, self.rows, self.fill_cache = batch, rows, fill_cache
        self.exchange, self._all_reduce = exchange, exchange and exchange.sum
        self.checks = checks or FiniteChecks(plan.is_traced)
        self.halting: Callable[..., Tensor] | None = plan.halting
        self.noise: Noise = {}
        if plan.training and (plan.noise or plan.quantize):
            self.noise = draw_noise(plan, None if exchange is None else exchange.halo)
        # Step signals, (max_steps, d), and the signal of each step, (d,).
        self.signals, self.signal_of = plan.signals, plan.signal_of
        if plan.step_signal is not None:
            self.signals = step_signals(plan.step_signal, plan.max_steps, feat)
            self.signal_of = self.signals.unbind()
        self.encodings: Tensor | None = None  # (N_src, d), added to the states in every step
        if positions is not None and plan.position_signal is not None:
            self.encodings = self.encode(positions, feat)
        if plan.inject_input:
            self.encodings = add_encoding(with_noise(self.noise, "injected", feat), self.encodings)
        if plan.quantize is not None:
            feat = plan.quantize.round(feat)
        # (N_src, d) first states
        self.feat = with_noise(self.noise, "first", feat) if self.noise else feat
        size, first = context.num_dst, self.feat
        if plan.is_traced or size != first.shape[0]:  # sizes of a traced call are not compared
            first = first[:size]
        self.rule_state = RuleState(plan.rule, first, batch)

    def encode(self, positions: Tensor, feat: Tensor) -> Tensor:
        """Return the signals of positions, `(N_src, d)`."""
        table, signal = self.plan.positions, self.plan.position_signal
        assert signal is not None
        is_plain = table is not None and positions.dtype == torch.int64 and positions.dim() == 1
        if table is not None and is_plain and positions.numel():
            low, high = positions.aminmax()
            if low.item() >= 0 and high.item() < len(table):
                return table.index_select(0, positions)
        return encode(signal, positions, feat)

    def with_halo(self, nodes: Tensor | None, rows: Tensor) -> tuple[Tensor | None, Tensor]:
        """Return changed nodes and their `rows`, plus nodes received from any other processes."""
        return (nodes, rows) if self.exchange is None else self.exchange(nodes, rows)

    def any_active(self, count: int) -> bool:
        """Return whether any process has an active node; `count` is the number on this process."""
        return bool(count) if self.exchange is None else self.exchange.any_active(count)

    def step(self, t: int) -> Any:
        """Return the module that computes step `t`, counted from 1."""
        steps = self.plan.steps
        return steps[0] if len(steps) == 1 else steps[t - 1]

    def readout(self, states: Tensor) -> Tensor:
        """Return states `(A, d)` after the output norm, a final LayerNorm, if the step has one."""
        out: Tensor = self.plan.steps[-1].readout(states)
        return out

    def update(self, rows: Tensor, t: int) -> Tensor:
        """Run step `t` on its input for the active nodes, `(A, d)`, and return their new states."""
        step, quantize = self.step(t), self.plan.quantize
        if self.trusts_arguments:
            with skip_checks(True):
                new: Tensor = step.update(rows, self.context)
        else:
            new = step.update(rows, self.context)
        if quantize is None:
            return new
        return quantize.round(with_noise(self.noise, "quantized", new, self.context.frontier, t))

    def decide(
        self,
        before: Tensor,
        after: Tensor,
        t: int,
        nodes: Tensor | None,
        shown: Tensor | None,
        active: Tensor | None = None,
    ) -> Tensor:
        """Let the rule decide which nodes halt in step `t`; return a mask, `(A,)` bool.

        `before` and `after` are the input and the output of the step for the `A` active `nodes`
        (None: all nodes). The method appends them to `self.rows`, if the call records its steps;
        `shown` are then the states before the step, without signals. If all nodes compute, only
        those in the mask `active` can halt.
        """
        plan, probability = self.plan, None
        if self.halting is not None:
            probability = self.halting(before if plan.halt_from == "input" else after, nodes, t)
            check_probability_shape(probability, len(after))
            self.checks.check_probability(probability, nodes, t)
        is_last = t == plan.max_steps
        step_rows = StepRows(before, after, probability, t, is_last, self._all_reduce)
        halts = self.rule_state.update(step_rows, active)
        if self.rows is not None and shown is not None:
            nodes = torch.arange(len(after), device=after.device) if nodes is None else nodes
            weights, chosen = self.rule_state.weight, self.rule_state.chosen
            change = squared_change(after, shown, relative=plan.steps[0].norm == "pre")
            states = self.readout(after)
            recorded = FrontierRows(nodes, states, weights, probability, change, chosen)
            if active is not None:
                recorded = FrontierRows._make(x if x is None else x[active] for x in recorded)
            self.rows.append(recorded)
        return halts


def add_encoding(rows: Tensor, encoding: Tensor | None) -> Tensor:
    """Return `rows`, `(A, d)`, plus `encoding`, `(A, d)` or `(d,)`; None adds nothing."""
    return rows if encoding is None else rows + encoding


def squared_change(new: Tensor, shown: Tensor, *, relative: bool) -> Tensor:
    """Return the mean square change from `shown` to `new`, `(A, d)`, of each node, `(A,)`.

    It is in float32 or wider. If `relative`, it is divided by the mean square of `shown`.
    """
    if new.dtype != shown.dtype or new.element_size() < 4:
        wide = torch.promote_types(torch.promote_types(new.dtype, shown.dtype), torch.float32)
        new, shown = new.to(wide), shown.to(wide)
    change = (new - shown).square().mean(1)
    if relative:
        change = change / shown.square().mean(1).clamp_min(torch.finfo(new.dtype).eps ** 2)
    return change


def updated(table: Tensor | None, nodes: Tensor | None, rows: Tensor) -> Tensor:
    """Return a copy of `table` with `rows` at `nodes`, or `rows` if `table` or `nodes` is None."""
    return rows if table is None or nodes is None else table.index_copy(0, nodes, rows)
