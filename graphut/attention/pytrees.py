"""Edge layouts as pytrees, so that a program from `torch.export` takes any graph as input."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from torch.utils import _pytree as pytree

T = TypeVar("T", bound=type)


@dataclass(frozen=True)
class _Constants:
    """The properties of a layout that are constant in an exported program."""

    extra_nodes: bool
    has_empty_rows: bool
    is_monotone: bool
    # A layout is mostly flattened and unflattened with the same tensors. Then this one is returned,
    # with its cache.
    layout: Any = field(default=None, compare=False, repr=False)


def as_pytree(cls: T) -> T:
    """Register a class of layouts as a pytree whose leaves are index tensors and sizes."""
    make: Any = cls
    indices = (*make._index_names, "edge_ids", "dst_lengths", "src_lengths")
    names = (*indices, *make._size_names)

    def flatten(layout: Any) -> tuple[list[Any], _Constants]:
        constants = _Constants(
            extra_nodes=layout.extra_nodes,
            has_empty_rows=layout.has_empty_rows,
            is_monotone=layout._facts.get("falls") == 0,
            layout=layout,
        )
        return [getattr(layout, name) for name in names], constants

    def flatten_with_keys(layout: Any) -> tuple[list[tuple[Any, Any]], _Constants]:
        leaves, constants = flatten(layout)
        return [(pytree.GetAttrKey(k), x) for k, x in zip(names, leaves, strict=True)], constants

    def unflatten(leaves: Iterable[Any], constants: _Constants) -> Any:
        values, layout = dict(zip(names, leaves, strict=True)), constants.layout
        old = {} if layout is None else {name: getattr(layout, name) for name in names}
        if old and all(x is old[k] or (type(x) is int and x == old[k]) for k, x in values.items()):
            return layout
        facts = {
            "empty_rows": int(constants.has_empty_rows),
            "falls": int(not constants.is_monotone),
            "edges": values.pop("num_edges", None),
        }
        return make(**values, extra_nodes=constants.extra_nodes, _facts=facts, _trusted=True)

    pytree.register_pytree_node(
        cls,
        flatten,
        unflatten,
        serialized_type_name=f"graphut.{cls.__name__}",
        flatten_with_keys_fn=flatten_with_keys,
        to_dumpable_context=lambda c: [c.extra_nodes, c.has_empty_rows, c.is_monotone],
        from_dumpable_context=lambda flags: _Constants(*flags),
    )
    return cls
