"""One call of an adaptive recurrence: its arguments, checked, and its settings, read once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout, as_layout
from graphut.attention.checks import check_feat, check_tensor
from graphut.attention.key_value_memory import KeyValueMemory
from graphut.attention.tracing import is_capturing
from graphut.nn.checks import check_same_nodes
from graphut.nn.layers import MultiHeadAttention
from graphut.nn.loop import FINITE_CHECKS, FrontierRows, LoopOutput, repeat_until_halted
from graphut.nn.noise import Noise, draw_noise, with_noise
from graphut.nn.ponder import AttentionRecord, Ponder
from graphut.nn.rules import BatchIndex, EventDriven, FixedDepth
from graphut.nn.rules.base import batch_index
from graphut.nn.separable_conv import SeparableConvTransition
from graphut.nn.signals import encode, step_signals
from graphut.nn.step import Store, read_cross

Graph: TypeAlias = DGLGraph | EdgeLayout


class Call:
    """The settings of a recurrence, read once, and the tensors of one call, which `begin` sets."""

    def __init__(self, layer: Any) -> None:
        self.layer, self.rule, self.steps = layer, layer.active_rule, layer.steps
        rule, self.max_steps = self.rule, layer.max_steps
        self.is_waking = isinstance(rule, EventDriven)
        if self.is_waking:
            self.max_steps = rule.max_rounds or self.max_steps
        self.halted = layer.active_halted
        # Whether halted nodes go on computing.
        self.runs_on = self.halted == "running" and not isinstance(rule, FixedDepth | EventDriven)
        if self.halted == "running":
            self.halted = "copied"
        if self.halted == "copied" and layer.step_signal is None:
            self.halted = "frozen"  # the same, and nothing is added to the values
        self.halting: Callable[..., Tensor] | None = layer.halting
        self.halt_from, self.quantize = rule.halt_from, layer.quantize

    def begin(
        self,
        store: Store,
        feat: Tensor,
        positions: Tensor | None = None,
        *,
        batch: BatchIndex | None = None,
        get_steps: bool = False,  # whether to return the rows of each step
    ) -> Call:
        """Begin a call with a store for keys and values, and the features `(N_src, d)`."""
        layer, rule, step_signal = self.layer, self.rule, self.layer.step_signal
        self.store, self.batch = store, batch
        self.num_dst = store.layout.num_dst  # number of nodes in the result
        # Whether values of tensors cannot be read.
        self.is_traced = feat.is_cuda and is_capturing()
        self.get_steps, records = get_steps, get_steps or store.get_attention
        self.rows: list[FrontierRows] | None = [] if records else None
        if not rule.uses_probability:
            if not records:
                self.halting = None
            # The module reads the state that it was trained on.
            for other in (layer.rule, layer.evaluation_rule) if self.halting is not None else ():
                if other.uses_probability:
                    self.halt_from = other.halt_from
                    break
        self.noise: Noise = {}
        if layer.training and (layer.noise or self.quantize):
            self.noise = store.same_noise(draw_noise(layer))
        self.signals = self.signal_of = self.encodings = None
        if step_signal is not None:
            self.signals = step_signals(step_signal, self.max_steps, feat)
            self.signal_of = self.signals.unbind()
        # (N_src, d), added to the states in every step
        if positions is not None and layer.position_signal is not None:
            self.encodings = encode(layer.position_signal, positions, feat)
        if layer.inject_input:
            self.encodings = feat if self.encodings is None else feat + self.encodings
        # (N_src, d), the features as given, and the first states
        self.given = self.feat = feat
        if self.quantize is not None:
            self.feat = self.quantize.round(feat)
        if self.noise:
            self.feat = with_noise(self.noise, "first", self.feat)
        self.checks, self.waits = FINITE_CHECKS, True
        self.program: Any = None  # settings of a program that runs the call on a GPU
        return self


def begin_call(
    layer: Any,
    graph: Graph,
    feat: Tensor,
    *,
    positions: Tensor | None = None,
    cross: tuple[Graph, Tensor] | None = None,
    get_attention: bool = False,
    get_steps: bool = False,
    **edges: Tensor | None,
) -> Call:
    """Check the arguments of `layer.forward`, and return the call that a loop runs."""
    call, edge_options = Call(layer), dict[str, Tensor]()
    for name, of_edges in edges.items():
        if of_edges is not None:
            edge_options[name] = of_edges
    rule, step = call.rule, call.steps[0]
    if not isinstance(feat, Tensor):
        check_tensor(feat, "features of source nodes")
    if isinstance(graph, EdgeLayout):
        layout = graph
    else:
        check_same_nodes(graph)
        layout = as_layout(graph)
    if layout.device != feat.device:
        layout = layout.to(feat.device)
    store_type, attention = Store, step.attention
    num_given, num_dst = layout.num_src, layout.num_dst
    if num_dst > num_given:
        raise ValueError(
            f"the graph has {num_dst} destination and {num_given} source nodes; in a "
            "recurrence every destination must be a source too"
        )
    if layout.halo is not None:  # the other nodes of this part have no features here
        _check_part(call.steps)
        store_type, num_given = layout.halo.store, num_dst
    check_feat(feat, "source", num_given, attention.in_feats[1], attention)
    if call.is_waking:  # the layer may have changed since the rule was set
        from graphut.nn.waking import check_event_driven

        check_event_driven(rule, layer.step, layer.halting, layer.step_signal)
    between = encoded = None
    if cross is not None or step.cross_attention is not None:
        between, encoded = read_cross(step.cross_attention, cross)
    if positions is not None:
        if not isinstance(positions, Tensor):
            check_tensor(positions, "positions")
        if positions.shape[:1] != (num_given,) or positions.dim() > 2:
            raise ValueError(
                f"positions must be ({num_given},), one for each node, or ({num_given}, "
                f"coordinates); got shape {tuple(positions.shape)}"
            )
        positions = positions.to(feat.device, non_blocking=True)
    store = store_type(
        layout,
        cross_layout=between,
        encoded=encoded,
        edge_options=edge_options,
        get_attention=get_attention,
    )
    batch = None
    if rule.needs_members or (call.is_waking and len(layout.dst_lengths) > 1):
        batch = layout.cached(batch_index)
    call.begin(store, feat, positions, batch=batch, get_steps=get_steps)
    if call.is_traced and not (call.runs_on or isinstance(rule, FixedDepth)):
        raise RuntimeError(
            "a CUDA graph cannot record how many nodes halt in each step: use the rule "
            "FixedDepth() or halted='running'"
        )
    return call


def _check_part(steps: Sequence[Any]) -> None:
    """Raise a `ValueError` if a graph divided among processes does not support these settings."""
    unsupported = ""
    if any(isinstance(step.transition, SeparableConvTransition) for step in steps):
        unsupported = "a separable convolution, which reads other nodes than in-neighbours"
    elif any(step.cross_attention is not None for step in steps):
        unsupported = "a decoder step"
    if unsupported:
        raise ValueError(f"a part of a graph does not support {unsupported}")


def close_call(call: Call, output: LoopOutput) -> Any:
    """Return the results of `layer.forward`: output, `Ponder`, and what was asked for."""
    store, rows, max_steps, step = call.store, call.rows, call.max_steps, call.steps[-1]
    output, rows = store.close((output._replace(out=step.readout(output.out)), rows))
    records: dict[str, Any] = dict(output.waking or {})
    if output.waking is not None:
        max_steps = len(output.waking["round_sizes"])
    if store.get_attention:
        records |= _attention_records(call, rows or [], max_steps)
    attention, cost = step.attention, output.cost
    ponder = Ponder(
        steps=output.steps,
        remainder=output.remainder,
        cost=cost.mean() if cost.shape[0] else cost.sum(),
        max_steps=max_steps,
        work=store.work,
        layout=store.layout,
        cross_layout=store.cross_layout,
        node_flops=step.node_flops,
        key_value_flops=attention.key_value_flops,
        edge_flops=attention.edge_flops,
        encoded_flops=0 if store.encoded is None else store.encoded.flops,
        **records,
    )
    asked = ([store.weights] if store.get_attention else []) + ([rows] if call.get_steps else [])
    return output.out, ponder, *asked


def _attention_records(call: Call, rows: Sequence[FrontierRows], max_steps: int) -> dict[str, Any]:
    """Return the fields of `Ponder` with attention weights and halting probabilities."""
    store = call.store
    records: dict[str, Any] = {"attention": AttentionRecord(store.layout, store.weights)}
    if (between := store.cross_layout) is not None:
        records["cross_attention"] = AttentionRecord(between, store.cross_weights)
    halting = [(r.nodes, r.probability) for r in rows if r.probability is not None]
    if halting:
        missing = halting[0][1].new_full((call.num_dst,), torch.nan)
        records["halting"] = torch.stack([missing.index_copy(0, *each) for each in halting])
        records["stopped"] = torch.zeros_like(missing, dtype=torch.bool)
        if rows[-1].halts is not None and len(rows) == max_steps:
            records["stopped"][rows[-1].nodes] = ~rows[-1].halts
    return records


def run_call(call: Call, start: Any = None) -> LoopOutput:
    """Run the steps of a call, from the state `start` if given; return the results of all nodes."""
    choose_backend(call)
    if call.program is not None:
        from graphut.nn.gpu import run_program

        output: LoopOutput | None = run_program(call)
        if output is not None:
            return output
        choose_backend(call)  # which knows that the program has failed
    if not call.is_traced:
        call.checks.check_features(call.given)
    if call.is_waking:
        from graphut.nn.waking import repeat_until_quiescent

        return repeat_until_quiescent(call, start)
    return repeat_until_halted(call)


def choose_backend(call: Call) -> None:
    """Let the attention layers read a `KeyValueMemory`, or a program run the call on a GPU."""
    store, feat = call.store, call.feat
    if call.is_traced:
        return
    if call.rows is None and not store.edge_options:
        attention: Any = None
        for step in call.steps:
            attention = step.attention
            if not (
                isinstance(attention, MultiHeadAttention)
                and attention.fits_memory(store.layout, feat)
            ):
                break
        else:
            store.memory = KeyValueMemory(attention.num_heads)
        if feat.is_cuda:
            from graphut.nn.gpu import AsyncFiniteChecks, program_of

            call.program, call.waits = program_of(call)
            call.checks = FINITE_CHECKS if call.waits else AsyncFiniteChecks(call.layer)
    if call.waits and store.encoded is not None and not store.get_attention:
        between: Any = store.cross_layout
        cross = [step.cross_attention for step in call.steps]
        store.encoded.in_place = all(
            isinstance(each, MultiHeadAttention) and each.fits_memory(between, feat)
            for each in cross
        )
