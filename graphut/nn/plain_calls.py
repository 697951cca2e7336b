"""Call torch's own layers as functions where nobody can see the difference.

A call of a module takes as long as a product of a few rows, and a step makes about fifteen.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, linear
from torch.nn.modules.module import (
    _global_backward_hooks,
    _global_backward_pre_hooks,
    _global_forward_hooks,
    _global_forward_pre_hooks,
)

_CALL = nn.Module.__call__


def call_layer(layer: Any, rows: Tensor) -> Tensor:
    """Return `layer(rows)`; if `layer` is a plain layer of torch without hooks, by a function."""
    function, own = _FUNCTIONS.get(type(layer)), layer.__dict__
    if (
        function is None
        or own["_forward_hooks"]
        or own["_forward_pre_hooks"]
        or own["_backward_hooks"]
        or own["_backward_pre_hooks"]
        or "forward" in own
        or _global_forward_hooks
        or _global_forward_pre_hooks
        or _global_backward_hooks
        or _global_backward_pre_hooks
        or nn.Module.__call__ is not _CALL  # a tool traces modules
    ):
        called: Tensor = layer(rows)
        return called
    try:
        return function(own, rows)
    except KeyError:  # a tool has replaced a parameter by another kind of attribute
        replaced: Tensor = layer(rows)
        return replaced


def is_hooked(layer: nn.Module) -> bool:
    """Return whether `layer` has hooks or a `forward` of its own, beside its class."""
    hooks = layer._forward_hooks or layer._forward_pre_hooks
    hooks = hooks or layer._backward_hooks or layer._backward_pre_hooks
    return bool(hooks) or "forward" in vars(layer)


# Weights are read anew in each call, because an optimizer or a tool may replace them.
def _linear(own: dict[str, Any], rows: Tensor) -> Tensor:
    weights = own["_parameters"]
    return linear(rows, weights["weight"], weights["bias"])


def _layer_norm(own: dict[str, Any], rows: Tensor) -> Tensor:
    weights = own["_parameters"]
    shape, eps = own["normalized_shape"], own["eps"]
    return torch.layer_norm(rows, shape, weights["weight"], weights["bias"], eps)


def _dropout(own: dict[str, Any], rows: Tensor) -> Tensor:
    return dropout(rows, own["p"]) if own["training"] and own["p"] else rows


def _relu(own: dict[str, Any], rows: Tensor) -> Tensor:
    return torch.relu_(rows) if own["inplace"] else torch.relu(rows)


_FUNCTIONS: dict[type, Callable[[dict[str, Any], Tensor], Tensor]] = {
    nn.Linear: _linear,
    nn.LayerNorm: _layer_norm,
    nn.Dropout: _dropout,
    nn.Identity: lambda own, rows: rows,
    nn.ReLU: _relu,
}
