"""A cached property that `torch.compile` can trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from graphut.attention.transforms import is_exporting, outside_transforms

if TYPE_CHECKING:
    from functools import cached_property
else:

    class cached_property:  # noqa: N801
        """`functools.cached_property` without the lock of Python 3.10 and 3.11.

        The value is computed outside of the transforms of torch.func, because it is kept.
        """

        def __init__(self, make: Callable[[Any], Any]) -> None:
            self.make = make
            self.__doc__ = make.__doc__

        def __get__(self, instance: Any, owner: type) -> Any:
            """Compute the value, and set it on the instance, where Python finds it first."""
            if instance is None:
                return self
            with outside_transforms():
                value = self.make(instance)
            if not is_exporting():
                object.__setattr__(instance, self.make.__name__, value)  # frozen dataclasses too
            return value


__all__ = ["cached_property"]
