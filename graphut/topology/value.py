"""Frozen values that are a name and integers, as spec strings write them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, final

from graphut.topology.registry import register

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class NamedValue:
    """A frozen dataclass with a `name`, whose fields are integers, or a tuple of them.

    Raises
    ------
    TypeError
        If a field is not an integer.
    ValueError
        If a field is less than its minimum.
    """

    name: ClassVar[str]
    _minimum: ClassVar[Mapping[str, int]] = {}

    def __init_subclass__(
        cls, *, named: bool = True, minimum: Mapping[str, int] | None = None
    ) -> None:
        """Keep the least values of fields; let spec strings use the subclass if it is named."""
        super().__init_subclass__()
        cls._minimum = cls._minimum if minimum is None else minimum
        if named:
            register(cls.__dict__.get("name"), cls)

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Refuse a subclass with parameters that are no fields: all of them would be equal."""
        if "__init__" in cls.__dict__ and "__dataclass_fields__" not in cls.__dict__:
            raise TypeError(
                f"{cls.__name__} must keep its parameters as a dataclass does: decorate it with "
                "@dataclass(frozen=True), and leave out __init__"
            )
        return super().__new__(cls)

    def __post_init__(self) -> None:
        """Check that fields are integers and at least their minimum."""
        for field in fields(self):
            value = getattr(self, field.name)
            several = isinstance(value, tuple) and "tuple" in str(field.type)
            for number in value if several else (value,):
                if type(number) is not int:
                    raise TypeError(f"{self.name}: {field.name} must be an integer, got {number!r}")
        for name, least in self._minimum.items():
            value = getattr(self, name)
            if value < least:
                must = "not be negative" if least == 0 else f"be at least {least}"
                raise ValueError(f"{self.name}: {name} must {must}, got {value}")

    def spec(self) -> str:
        """Return the value as `topology.parse` reads it.

        Examples
        --------
        >>> from graphut.topology import Causal, Random, Window
        >>> (Window(8) & Causal() | Random(2, seed=7)).spec()
        'window:8&causal|random:2@7'
        """
        numbers = {field.name: getattr(self, field.name) for field in fields(self)}
        seed = f"@{numbers.pop('seed')}" if "seed" in numbers else ""
        tuples = [value if isinstance(value, tuple) else (value,) for value in numbers.values()]
        values = ",".join(str(value) for several in tuples for value in several)
        return self.name + ":" * bool(values) + values + seed

    @final
    def __str__(self) -> str:
        """Return `spec()`."""
        return self.spec()
