"""Checks that an argument is a tensor that the kernels can read, and holds ids that exist."""

from typing import Any

import torch
from torch import Tensor, nn
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.autograd import forward_ad

from graphut.attention.tracing import is_intercepted

_CLASSES = frozenset({Tensor, nn.Parameter})
_REMEDIES = {  # the method that returns a plain tensor, by class
    "DTensor": "full_tensor()",
    "EdgeIndex": "as_tensor()",
    "Index": "as_tensor()",
    "MaskedTensor": "get_data()",
    "NestedTensor": "to_padded_tensor(0.0)",
}


def check_tensor(value: object, name: str) -> None:
    """Raise `TypeError` unless the argument `name` is a plain, strided tensor with its own memory.

    Kernels read memory. A tensor that wraps others has none: a subclass such as PyG's `EdgeIndex`,
    or a tensor inside of `torch.func` or forward-mode differentiation. Inside of `torch.compile`,
    and where a mode intercepts all operators, the operators see such tensors and not the kernels.
    """
    if type(value) in _CLASSES and _is_plain(value):
        return
    if not isinstance(value, Tensor):
        advice = "" if value is None else "; convert it with torch.as_tensor"
        if hasattr(value, "in_degrees"):
            advice = "; pass the graph first, then the features"
        raise TypeError(f"{name} must be a tensor, got {type(value).__name__}{advice}")
    if is_intercepted() or (_is_subclass_with_memory(value) and _is_plain(value)):
        return
    kind, advice = type(value).__name__, "pass a plain torch.Tensor"
    if kind in _REMEDIES:
        advice = f"pass the plain tensor of .{_REMEDIES[kind]}"
    elif value.is_nested:
        kind, advice = "nested tensor", "pass its rows in one tensor, and their graphs in `batch`"
    elif value.is_quantized:
        kind, advice = "quantized tensor", "pass the tensor of .dequantize()"
    elif value.layout is not torch.strided:
        kind = str(value.layout).removeprefix("torch.").replace("_", " ").strip() + " tensor"
        advice = (
            "pass the tensor of .to_dense(), or the edges as torch_geometric.utils.to_edge_index"
        )
    elif type(value) in _CLASSES:
        kind = "tensor inside of torch.func or of forward-mode differentiation"
        advice = "use torch.autograd"
    raise TypeError(f"{name} is a {kind}, which the kernels cannot read: {advice}")


def _is_plain(value: Any) -> bool:
    if torch.compiler.is_compiling():
        return True
    return value.layout is torch.strided and not (
        value.is_nested
        or value.is_quantized
        or is_functorch_wrapped_tensor(value)
        or torch._is_functional_tensor(value)
        or forward_ad._current_level >= 0
    )


def _is_subclass_with_memory(value: Tensor) -> bool:
    """Return whether a subclass only adds methods, and does not intercept operators."""
    return type(value).__torch_dispatch__ is Tensor.__torch_dispatch__


def check_index(name: str, index: Any) -> None:
    """Raise `TypeError` unless the argument `name` is a 1-D int64 tensor."""
    check_tensor(index, name)
    if index.dtype != torch.int64 or index.dim() != 1:
        raise TypeError(f"{name} must be a 1-D int64 tensor, got {index!r}")


def check_range(
    name: str, ends: Tensor, num_nodes: int, node: str = "node", limit: str = "there are only {}"
) -> None:
    """Raise `ValueError` unless the ids `ends` in the argument `name` are below `num_nodes`."""
    if not ends.numel():
        return
    low, high = ends.aminmax()
    if int(low) < 0 or int(high) >= num_nodes:
        missing = int(ends[(ends < 0) | (ends >= num_nodes)][0])
        raise ValueError(f"{name} refers to {node} {missing}, but {limit.format(num_nodes)}")
