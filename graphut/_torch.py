"""Import torch when an attribute of `torch` is first used.

`import torch` takes more than a second, and the command line refuses most mistakes without it.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["Tensor", "torch"]

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:

    class _LazyTorch(ModuleType):
        def __getattr__(self, name: str) -> Any:
            value = getattr(import_module("torch"), name)
            setattr(self, name, value)  # found without this method from now on
            return value

    class _TensorType(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, torch.Tensor)

    class Tensor(metaclass=_TensorType):
        """A stand-in for `torch.Tensor` in annotations and `isinstance`."""

    torch = _LazyTorch("torch")
