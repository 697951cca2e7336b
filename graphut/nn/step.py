"""One step of the Universal Transformer, its halting unit, and the store that steps share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import linear

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout, as_layout
from graphut.attention.checks import check_feat
from graphut.attention.key_value_memory import KeyValueMemory
from graphut.attention.tracing import outside_autocast
from graphut.nn.checks import check_widths
from graphut.nn.layers import (
    MultiHeadAttention,
    PositionwiseTransition,
    StepBatchNorm,
    Transition,
    call_layer,
)
from graphut.nn.noise import Noise
from graphut.nn.ponder import FlopCount

NORMS = ("post", "pre", None)


class EncoderOutput:
    """The encoder's output `(N_src, d)`, projected once for each layer of cross-attention."""

    def __init__(self, feat: Tensor) -> None:
        self.feat, self.in_place = feat, False  # `choose_backend` may set it
        self.flops = 0  # floating-point operations of all projections so far
        self._stored: dict[Any, Any] = {}

    def stored(self, layer: Any) -> Any:
        """Return the keys and values for `layer`: a tensor, or a `KeyValueMemory` if `in_place`."""
        if layer not in self._stored:
            self.flops += self.feat.shape[0] * layer.key_value_flops
            self._stored[layer] = table = layer.project(self.feat)
            if self.in_place:
                self._stored[layer] = memory = KeyValueMemory(layer.num_heads)
                memory.write(None, table)
        return self._stored[layer]


class Store:
    """Edges, keys and values that the steps of one call share.

    The loop sets the step and its frontier, and writes keys and values. A step reads them with
    `attend`, `cross_attend` and `feed_forward`. There is a subclass for a decoder with a key/value
    cache, and one for a process that has a part of the graph (`graphut.distributed`).
    """

    is_cache = False  # whether later tokens of a decoder may take more steps
    replaces_all = True  # whether a write of all nodes leaves no other rows

    def __init__(
        self,
        layout: EdgeLayout,
        *,
        cross_layout: EdgeLayout | None = None,  # edges from the encoder's nodes
        encoded: EncoderOutput | None = None,
        edge_options: dict[str, Any] | None = None,
        get_attention: bool = False,
    ) -> None:
        self.layout, self.cross_layout, self.encoded = layout, cross_layout, encoded
        self.edge_options = edge_options or {}
        self.get_attention = get_attention
        self.memory: KeyValueMemory | None = None  # instead of `table`, where a backend has one
        self.table: Tensor | None = None  # (N_src, 2 * H * D), for all other attention layers
        self.owns_table = False  # whether the table may be changed in place, without gradients
        self.step = 1
        self.frontier: Tensor | None = None  # (A,) ids of the active nodes; None for all
        self.value_shift: Tensor | None = None  # (H * D,) to be added to every value
        self.combined: Tensor | None = None  # (N, d), input of a convolution
        self.weights: list[Tensor] = []  # (E, H) of each self-attention
        self.cross_weights: list[Tensor] = []  # (E_cross, H)
        self.work = FlopCount()

    def received(self, nodes: Tensor | None, rows: Tensor) -> tuple[Tensor | None, Tensor]:
        """Return changed nodes and their `rows`, plus nodes received from any other processes."""
        return nodes, rows

    def any_active(self, count: int) -> bool:
        """Return whether any process has an active node; `count` is the number on this process."""
        return count > 0

    def all_reduce(self, values: Tensor) -> Tensor:
        """Return the sum of `values` over all processes that have a part of the graph."""
        return values

    def same_noise(self, noise: Noise) -> Noise:
        """Return the noise of a call, the same in all processes that have a part of the graph."""
        return noise

    def close(self, results: Any) -> Any:
        """Return the results of a call, a pytree, when no process needs anything more of it."""
        return results

    def write(self, nodes: Tensor | None, key_value: Tensor) -> None:
        """Store the keys and values, `(A, 2 * H * D)`, of `nodes`, `(A,)`; None is all nodes."""
        self.work.projected += key_value.shape[0]
        if self.memory is not None:
            self.memory.write(nodes, key_value)
        elif self.table is None or nodes is None:  # a hook may keep the tensor of the layer
            self.table = key_value.clone() if self.owns_table else key_value
        elif self.owns_table:
            self.table.index_copy_(0, nodes, key_value)
        else:
            self.table = self.table.index_copy(0, nodes, key_value)

    def attend(self, layer: Any, rows: Tensor) -> Tensor:
        """Return the self-attention output of the active nodes, given their features `(A, d)`."""
        options: dict[str, Any] = {"frontier": self.frontier, **self.edge_options}
        if self.value_shift is not None:
            options["value_shift"] = self.value_shift
        if self.get_attention:
            options["get_attention"] = True
        stored = self.table if self.memory is None else self.memory
        result: Any = layer(self.layout, rows, stored=stored, **options)
        if not self.get_attention:
            return result
        self.weights.append(result[1])
        return result[0]

    def cross_attend(self, layer: Any, rows: Tensor) -> Tensor:
        """Return the cross-attention output of the active nodes, given their features `(A, d)`."""
        assert self.encoded is not None
        options: Any = {"get_attention": True} if self.get_attention else {}
        stored = self.encoded.stored(layer)
        result: Any = layer(
            self.cross_layout, rows, stored=stored, frontier=self.frontier, **options
        )
        if not self.get_attention:
            return result
        self.cross_weights.append(result[1])
        return result[0]

    def feed_forward(self, transition: Transition, rows: Tensor) -> Tensor:
        """Return the feed-forward output of the active nodes, `(A, d)`, given its inputs `rows`."""
        if isinstance(transition, PositionwiseTransition):
            return transition(self.layout, rows)
        if self.frontier is not None:
            if self.combined is None:  # zeros for nodes that halt before the first step
                self.combined = rows.new_zeros(self.layout.num_dst, rows.shape[1])
            rows = self.combined.index_copy(0, self.frontier, rows)
        self.combined = rows
        return transition(self.layout, self.combined, frontier=self.frontier)


class UniversalTransformerStep(nn.Module):
    r"""One step of the Universal Transformer: self-attention and a transition, with residuals.

    With `norm="post"`, as in arXiv 1807.03819, Eqs. 4 and 5:

    .. math::
        A &= \mathrm{LayerNorm}(y + \mathrm{MultiHead}(y)) \\
        C &= \mathrm{LayerNorm}(A + \mathrm{MultiHead}(A; m)) \quad\text{(decoder)} \\
        x &= \mathrm{LayerNorm}(C + \mathrm{Transition}(C))

    With `norm="pre"`, each LayerNorm is applied to the input of attention and of the transition.
    The recurrence applies one more LayerNorm, the output norm, to its result.

    With `norm=None` there is no LayerNorm. With `residual=False`, nothing is added to the output of
    attention and of the transition either: :math:`x = \mathrm{Transition}(\mathrm{MultiHead}(y))`.

    A graph convolution instead of attention, `residual=False`, `batch_norm=max_steps` and an
    `activation` make the usual layer of a graph neural network, as one step of a recurrence.

    Parameters
    ----------
    attention : MultiHeadAttention
        Self-attention. `MessageAggregation`, or a DGL or PyG layer in `ConvAsAttention`, can
        replace it.
    transition : PositionwiseTransition or SeparableConvTransition, optional
        The feed-forward layer after attention. With None, the step ends with attention.
    cross_attention : MultiHeadAttention, optional
        Attention to the encoder's output :math:`m`, which makes the step a decoder step.
    norm : {"post", "pre", None}
        Apply LayerNorm after each residual, or before attention and transition, or nowhere.
    residual : bool
        Add the input of attention and of the transition to the output; always with `norm="pre"`.
    batch_norm : int, optional
        With `norm="post"`: use `StepBatchNorm` instead of LayerNorm, with statistics of their
        own for each of so many steps.
    activation : Module, optional
        A function of the states after attention, its residual and its norm.
    dropout : float
        Dropout probability of the outputs of attention and transition.
    output_norm : bool
        With `norm="pre"`: add the output norm. In a sequence of steps with separate weights, only
        the last step has one.
    norm_eps : float
        Added to the variance in each LayerNorm.

    Raises
    ------
    TypeError
        If a part has another type, such as a layer of DGL or PyG as `attention`.
    ValueError
        If `norm` is unknown or does not fit `residual`, or if the parts have different numbers of
        features.

    Examples
    --------
    >>> import torch
    >>> from graphut.nn import AdaptiveRecurrence, PositionwiseTransition
    >>> from graphut.topology import Complete
    >>> step = UniversalTransformerStep(MultiHeadAttention(8, 2), PositionwiseTransition(8, 32))
    >>> once = AdaptiveRecurrence(step, max_steps=1, step_signal=None)
    >>> once(Complete().graph([3, 2]), torch.randn(5, 8))[0].shape
    torch.Size([5, 8])
    """

    def __init__(
        self,
        attention: MultiHeadAttention,
        transition: Transition | None,
        *,
        cross_attention: MultiHeadAttention | None = None,
        norm: str | None = "post",
        residual: bool = True,
        dropout: float = 0.0,
        output_norm: bool = True,
        norm_eps: float = 1e-5,
        batch_norm: int | None = None,
        activation: nn.Module | None = None,
    ) -> None:
        super().__init__()
        if norm not in NORMS:
            raise ValueError(f"norm must be one of {NORMS}, got {norm!r}")
        if not residual and norm == "pre":
            raise ValueError(f"residual=False needs norm='post' or norm=None, got {norm=}")
        if batch_norm is not None and norm != "post":
            raise ValueError(f"batch_norm needs norm='post', got {norm=} and {batch_norm=}")
        if residual and not getattr(attention, "allows_residual", True):
            raise ValueError(
                f"{type(attention).__name__} needs norm=None, residual=False in its step; got "
                f"{norm=}, {residual=}"
            )
        self.norm, self.residual = norm, residual
        self.attention = attention
        self.cross_attention = cross_attention
        self.transition = transition
        check_widths(self)
        self.dropout = nn.Dropout(dropout)
        layer_norm: Callable[[], nn.Module] = nn.Identity
        if norm is not None:
            layer_norm = partial(nn.LayerNorm, attention.in_feats[1], eps=norm_eps)
        if batch_norm is not None:
            layer_norm = partial(StepBatchNorm, attention.in_feats[1], batch_norm, eps=norm_eps)
        self.attention_norm = layer_norm()
        self.activation = activation
        self.cross_norm = layer_norm() if cross_attention is not None else None
        self.transition_norm = layer_norm() if transition is not None else nn.Identity()
        self.output_norm = layer_norm() if norm == "pre" and output_norm else None

    def reset_parameters(self) -> None:
        """Draw new parameters in all layers."""
        for layer in (*self.children(), *getattr(self.activation, "children", tuple)()):
            if callable(reset := getattr(layer, "reset_parameters", None)):
                reset()

    @property
    def node_flops(self) -> int:
        """Floating-point operations for one active node, without its in-edges."""
        cross = 0 if self.cross_attention is None else self.cross_attention.node_flops
        moved = 0 if self.transition is None else self.transition.node_flops
        return self.attention.node_flops + cross + moved

    def forward(self, store: Store, rows: Tensor) -> Tensor:
        """Return the new states, `(A, d)`, of the active nodes.

        `rows`, `(A, d)`, are their states plus signals, :math:`y`. The step reads their neighbours
        from `store`. To call it with a graph, use `AdaptiveRecurrence(step, max_steps=1)`.
        """
        if not isinstance(store, Store):
            raise TypeError(
                f"a step is called by a recurrence, got {type(store).__name__}: use "
                "AdaptiveRecurrence(step, max_steps=1, step_signal=None)"
            )
        # Reading a submodule as an attribute takes several times as long.
        parts: Any = self._modules
        pre, norm = self.norm == "pre", parts["attention_norm"]
        attended = store.attend(parts["attention"], call_layer(norm, rows) if pre else rows)
        rows = self._add(rows, attended, norm, store)
        if (activation := parts.get("activation")) is not None:
            rows = activation(rows)
        if (attention := parts.get("cross_attention")) is not None:
            norm = parts["cross_norm"]
            attended = store.cross_attend(attention, call_layer(norm, rows) if pre else rows)
            rows = self._add(rows, attended, norm, store)
        if (transition := parts.get("transition")) is not None:
            norm = parts["transition_norm"]
            moved = store.feed_forward(transition, call_layer(norm, rows) if pre else rows)
            rows = self._add(rows, moved, norm, store)
        return rows

    def project(self, rows: Tensor, layout: EdgeLayout, nodes: Tensor | None = None) -> Tensor:
        """Return the keys and values, `(R, 2 * H * D)`, of `nodes` (None: all), `(R, d)`."""
        attention: Any = self._modules["attention"]
        if self.norm == "pre":
            rows = call_layer(self._modules["attention_norm"], rows)
        types = (layout, nodes) if getattr(type(attention), "reads_types", False) else ()
        projected: Tensor = attention.project(rows, *types)
        return projected

    @property
    def has_linear_projection(self) -> bool:
        """True if adding one vector to all states adds one vector to all attention values."""
        attention = self.attention  # or a layer in its place
        if not isinstance(attention, MultiHeadAttention) or not attention.has_plain_projection:
            return False
        return self.norm != "pre" and type(self).project is UniversalTransformerStep.project

    def value_shift(self, signal: Tensor) -> Tensor:
        """Return the vector that is added to all values when `signal` is added to all states.

        The step must have a linear projection. Keys are shifted by one vector too, which does not
        change softmax.
        """
        return linear(signal, self.attention.key_value.weight.chunk(2)[1])

    def _add(self, rows: Tensor, change: Tensor, norm: Any, store: Store) -> Tensor:
        total = call_layer(self._modules["dropout"], change)
        if self.residual:
            total = rows + total
        if self.norm == "pre":
            return total
        if isinstance(norm, StepBatchNorm):
            return norm(total, store.step)
        return call_layer(norm, total)

    def readout(self, out: Tensor) -> Tensor:
        """Return states `(A, d)` after the output norm, a final LayerNorm, if the step has one."""
        return out if self.output_norm is None else self.output_norm(out)

    def extra_repr(self) -> str:
        return f"norm={self.norm!r}" + ("" if self.residual else ", residual=False")


class HaltingUnit(nn.Module):
    r"""Learned halting probability of each node, :math:`p_i = \sigma(w \cdot u_i + b)`.

    From arXiv 1603.08983, Eq. 5; :math:`u_i` is the state of the node. The probability is computed
    in float32 or wider, also under autocast and in models with a narrower dtype.

    Parameters
    ----------
    in_feats : int
        Features of a state.
    bias_init : float
        Initial value of `b`. It should be negative, because a model that halts early at first may
        not learn to take more steps.
    gain : float
        Gain of the Xavier initialization of `w`. With 0 all nodes have the same probability at
        first, and no sigmoid is saturated.
    norm : bool
        Apply a LayerNorm to the state first, as in the code of DGL's tutorial.
    units : int
        The number of maps. Steps with weights of their own need one for each step.

    Examples
    --------
    >>> HaltingUnit(8, bias_init=-1.0)(torch.zeros(2, 8)).detach()
    tensor([0.2689, 0.2689])
    """

    def __init__(
        self,
        in_feats: int,
        *,
        bias_init: float = -1.0,
        gain: float = 1.0,
        norm: bool = False,
        units: int = 1,
    ) -> None:
        super().__init__()
        self.in_feats = in_feats
        self.bias_init = bias_init
        self.gain = gain
        self.norm = nn.LayerNorm(in_feats) if norm else None
        self.units, self.linear = units, nn.Linear(in_feats, units)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights and set the bias to `bias_init`."""
        for weight in self.linear.weight.split(1):
            nn.init.xavier_uniform_(weight, self.gain)
        nn.init.constant_(self.linear.bias, self.bias_init)
        if self.norm is not None:
            self.norm.reset_parameters()

    def forward(self, feat: Tensor, nodes: Tensor | None = None, step: int = 1) -> Tensor:
        """Return the halting probabilities, `(A,)`, of states `(A, in_feats)`.

        With several units, `step`, counted from 1, chooses one. `nodes`, the ids of the nodes, is
        for other halting modules.
        """
        unit = min(max(step, 1), self.units) - 1
        dtype, layer = feat.dtype, self._modules["linear"]
        if self.norm is None and type(layer) is nn.Linear and dtype.itemsize >= 4:
            weight = layer._parameters.get("weight")
            is_wide = weight is not None and weight.dtype == dtype
            if is_wide and not torch._C._is_any_autocast_enabled():
                return torch.sigmoid(call_layer(layer, feat))[:, unit]
        wide, norm = torch.promote_types(dtype, torch.float32), self.norm
        with outside_autocast(feat.device.type):
            rows = feat.to(wide) if norm is None else _call_wide(norm, feat.to(wide))
            return torch.sigmoid(_call_wide(self.linear, rows))[:, unit]

    def extra_repr(self) -> str:
        return f"bias_init={self.bias_init}, gain={self.gain}"


def _call_wide(layer: nn.Module, rows: Tensor) -> Tensor:
    """Call `layer` with its weights and buffers cast to the dtype of `rows`."""
    named = chain(layer.named_parameters(), layer.named_buffers())
    narrow = {name: x for name, x in named if x.is_floating_point() and x.dtype != rows.dtype}
    if not narrow:
        return layer(rows)
    wide = {name: x.to(rows.dtype) for name, x in narrow.items()}
    return functional_call(layer, wide, rows)


def read_cross(
    attention: MultiHeadAttention | None, cross: tuple[DGLGraph | EdgeLayout, Tensor] | None
) -> tuple[EdgeLayout | None, EncoderOutput | None]:
    """Return the edges and the features of the pair `cross`, or None twice without it."""
    if (cross is None) != (attention is None):
        raise ValueError(
            "a step with cross_attention needs cross=(graph, features), and a step without it "
            f"accepts no cross; got cross={'given' if cross else None}"
        )
    if cross is None or attention is None:
        return None, None
    graph, source = cross
    between = as_layout(graph).to(source.device)
    check_feat(source, "source", between.num_src, attention.in_feats[0], attention)
    return between, EncoderOutput(source)
