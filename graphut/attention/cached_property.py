"""A cached property that `torch.compile` can trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):  # noqa: N801
    """`functools.cached_property` without the lock of Python 3.10 and 3.11.

    Examples
    --------
    >>> class Circle:
    ...     @cached_property
    ...     def area(self):
    ...         print("once")
    ...         return 3
    >>> circle = Circle()
    >>> circle.area, circle.area
    once
    (3, 3)
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self.make = make
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> cached_property[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> T | cached_property[T]:
        """Make the value, and set it on the instance, where it is found before this descriptor."""
        if instance is None:
            return self
        value = self.make(instance)
        object.__setattr__(instance, self.make.__name__, value)  # dataclasses may be frozen
        return value
