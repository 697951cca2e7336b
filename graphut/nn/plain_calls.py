"""Call torch's own layers as functions where nobody can see the difference.

A call of a module takes as long as a product of a few rows, and a step makes about fifteen.
"""

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
_PLAIN = {nn.Linear, nn.LayerNorm, nn.ReLU, nn.Dropout, nn.Identity}


def call_layer(layer: Any, rows: Tensor) -> Tensor:
    """Return `layer(rows)`; if `layer` is a plain layer of torch without hooks, by a function."""
    kind, own = type(layer), layer.__dict__
    if kind in _PLAIN and not (
        own["_forward_hooks"]
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
        weights = own["_parameters"]  # an optimizer or a tool may replace them between calls
        try:
            if kind is nn.Linear:
                return linear(rows, weights["weight"], weights["bias"])
            if kind is nn.LayerNorm:
                shape, eps = own["normalized_shape"], own["eps"]
                return torch.layer_norm(rows, shape, weights["weight"], weights["bias"], eps)
            if kind is nn.ReLU:
                return torch.relu_(rows) if own["inplace"] else torch.relu(rows)
            if kind is nn.Identity or not (own["training"] and own["p"]):
                return rows
            return dropout(rows, own["p"])
        except KeyError:  # a tool has replaced a parameter by another kind of attribute
            pass
    called: Tensor = layer(rows)
    return called


def is_hooked(layer: nn.Module) -> bool:
    """Return whether `layer` has hooks or a `forward` of its own, beside its class."""
    own = vars(layer)
    hooks = own["_forward_hooks"] or own["_forward_pre_hooks"]
    hooks = hooks or own["_backward_hooks"] or own["_backward_pre_hooks"]
    return bool(hooks) or "forward" in own


def is_own(layer: nn.Module, kind: type, name: str) -> bool:
    """Return whether `layer` does not override the method `name` of the class `kind`."""
    return getattr(type(layer), name) is getattr(kind, name) and name not in vars(layer)
