"""Steps and halting units without Python decisions: they call functions instead of modules."""

from __future__ import annotations

from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, linear

from graphut.nn.attention import MultiHeadAttention
from graphut.nn.call_state import GraphContext
from graphut.nn.halting import HaltingUnit
from graphut.nn.step import UniversalTransformerStep
from graphut.nn.transition import PositionwiseTransition

# The modules that `PlainStep` calls as functions.
_PLAIN: tuple[type[nn.Module], ...] = (
    *(UniversalTransformerStep, MultiHeadAttention, PositionwiseTransition, nn.Sequential),
    *(nn.Linear, nn.LayerNorm, nn.Dropout, nn.Identity),
)
_METHODS = {"forward", "update", "project", "attend_memory", "readout", "value_shift"}
_Parameters: TypeAlias = dict[str, Any]


class PlainStep:
    """The computation of a step for which `is_plain` is true, without calls of modules.

    Weights are read anew in each step. Keys and values must be in a `KeyValueMemory`.
    """

    is_hooked = False

    def __init__(self, step: UniversalTransformerStep) -> None:
        transition: Any = step.transition
        first, self.activation, inner, last = transition.layers
        self.first: _Parameters = first._parameters
        self.last: _Parameters = last._parameters
        self.step, self.norm = step, step.norm
        self.readout, self.value_shift = step.readout, step.value_shift
        self.attention, self.cross = _Attention(step.attention), None
        if step.cross_attention is not None:
            self.cross = _Attention(step.cross_attention)
        self.attention_norm = _Norm(step.attention_norm)
        self.cross_norm = _Norm(step.cross_norm)
        self.transition_norm = _Norm(step.transition_norm)
        self.drop = step.dropout.p if step.dropout.training else 0.0
        self.inner_drop = inner.p if inner.training else 0.0

    def project(self, rows: Tensor) -> Tensor:
        """Return the keys and values, `(R, 2 * H * D)`, of nodes with states `(R, d)`."""
        key_value = self.attention.key_value
        if self.norm == "pre":
            rows = self.attention_norm(rows)
        return linear(rows, key_value["weight"], key_value["bias"])

    def update(self, rows: Tensor, context: GraphContext) -> Tensor:
        """Return the new states of the active nodes, given the step's input for them, `(A, d)`."""
        pre, frontier, attention = self.norm == "pre", context.frontier, self.attention
        context.work.attended.append((context.layout, frontier))
        query = self.attention_norm(rows) if pre else rows
        out = attention(context.layout, query, context.in_place, frontier, context.value_shift)
        rows = self._add(rows, out, self.attention_norm)
        if (cross := self.cross) is not None:
            layout, encoded = context.cross_layout, context.encoded
            assert layout is not None and encoded is not None
            context.work.cross_attended.append((layout, frontier))
            query = self.cross_norm(rows) if pre else rows
            out = cross(layout, query, encoded.memory(cross.layer), frontier, None)
            rows = self._add(rows, out, self.cross_norm)
        first, last = self.first, self.last
        hidden = linear(self.transition_norm(rows) if pre else rows, first["weight"], first["bias"])
        hidden = self.activation(hidden)
        if self.inner_drop:
            hidden = dropout(hidden, self.inner_drop)
        out = linear(hidden, last["weight"], last["bias"])
        return self._add(rows, out, self.transition_norm)

    def _add(self, rows: Tensor, change: Tensor, norm: _Norm) -> Tensor:
        total = rows + (dropout(change, self.drop) if self.drop else change)
        return total if self.norm == "pre" else norm(total)


class _Attention:
    """The computation of `MultiHeadAttention.attend_memory`."""

    def __init__(self, layer: MultiHeadAttention) -> None:
        self.layer, self.shape = layer, (layer.num_heads, layer.head_feats)
        self.scale = layer.head_feats**-0.5
        maps = (layer.query, layer.key_value, layer.output)
        parameters: list[_Parameters] = [vars(each)["_parameters"] for each in maps]
        self.query, self.key_value, self.output = parameters

    def __call__(
        self, layout: Any, rows: Tensor, memory: Any, frontier: Tensor | None, shift: Tensor | None
    ) -> Tensor:
        query, output = self.query, self.output
        by_head = linear(rows, query["weight"], query["bias"]).view(-1, *self.shape)
        out: Tensor = memory.attend(layout, by_head, frontier, self.scale).flatten(1)
        if shift is not None:
            out = out + shift
        return linear(out, output["weight"], output["bias"])


class _Norm:
    """The computation of a LayerNorm, or of none."""

    def __init__(self, layer: Any) -> None:
        self.parameters: _Parameters = {} if layer is None else layer._parameters
        self.shape, self.eps = getattr(layer, "normalized_shape", ()), getattr(layer, "eps", 0.0)

    def __call__(self, rows: Tensor) -> Tensor:
        if not self.shape:
            return rows
        both = self.parameters
        return torch.layer_norm(rows, self.shape, both["weight"], both["bias"], self.eps)


class PlainHalting:
    """The computation of a `HaltingUnit`, which is called like the unit."""

    def __init__(self, unit: HaltingUnit) -> None:
        self.unit, self.parameters = unit, vars(unit.linear)["_parameters"]

    def __call__(self, rows: Tensor, nodes: Tensor | None, step: int) -> Tensor:
        """Return the halting probabilities, `(A,)`, of states `(A, d)`."""
        weight, bias = self.parameters["weight"], self.parameters["bias"]
        if weight.dtype != rows.dtype or bias.dtype != rows.dtype:
            return self.unit(rows, nodes, step)
        return torch.sigmoid(linear(rows, weight, bias)).squeeze(1)


def plain_halting(module: Any, like: Tensor) -> Any:
    """Return `module`, or a `PlainHalting` that computes the same for states like `like`."""
    is_unit = type(module) is HaltingUnit and type(module.linear) is nn.Linear
    if not is_unit or module.norm is not None or torch._C._is_any_autocast_enabled():
        return module
    is_wide = like.dtype in (torch.float32, torch.float64)
    return PlainHalting(module) if is_wide and all(map(is_untouched, module.modules())) else module


def is_untouched(module: nn.Module) -> bool:
    """Return whether a module has neither hooks nor methods of its own."""
    hooks = module._forward_hooks or module._forward_pre_hooks
    hooks = hooks or module._backward_hooks or module._backward_pre_hooks
    return not hooks and _METHODS.isdisjoint(vars(module))


def is_plain(step: UniversalTransformerStep) -> bool:
    """Return whether a step has no hooks and only graphut's own parts, but for the activation."""
    transition = step.transition
    if not (step.residual and type(transition) is PositionwiseTransition):
        return False
    kinds = [type(layer) for layer in transition.layers]
    if kinds[:1] + kinds[2:] != [nn.Linear, nn.Dropout, nn.Linear]:
        return False
    activation = set(transition.layers[1].modules())
    return all(
        type(module) in _PLAIN
        and is_untouched(module)
        and getattr(module, "degree_scale", None) is None
        for module in step.modules()
        if module not in activation
    )
