"""Unions and intersections of topologies."""

from dataclasses import dataclass

from graphut._torch import Tensor, torch
from graphut.topology.base import Topology
from graphut.topology.batch import Interval
from graphut.topology.registry import operators


@dataclass(frozen=True)
class _Pair(Topology, named=False):
    """Base class of unions and intersections of the topologies `left` and `right`."""

    left: Topology
    right: Topology

    def __post_init__(self) -> None:
        for part in (self.left, self.right):
            if not isinstance(part, Topology):
                raise TypeError(f"| and & combine two topologies, got {part!r}")
        has_extra = self.left.has_extra_nodes or self.right.has_extra_nodes
        object.__setattr__(self, "has_extra_nodes", has_extra)

    @property
    def stable(self) -> bool:
        return self.left.stable and self.right.stable

    @property
    def stable_past(self) -> bool:
        return self.left.stable_past and self.right.stable_past

    def extra_nodes(self, n: Tensor) -> Tensor:
        return self.left.extra_nodes(n) + self.right.extra_nodes(n)

    def extra_spans(self, extra: Tensor, n: Tensor) -> Interval:
        return self._of_each_side("extra_spans", extra, n)

    def extra_starts(self, extra: Tensor, n: Tensor) -> Interval:
        return self._of_each_side("extra_starts", extra, n)

    def _of_each_side(self, method: str, extra: Tensor, n: Tensor) -> Interval:
        """Call a method of both sides, each for its own extra nodes; return all intervals."""
        on_right = extra - self.left.extra_nodes(n)
        is_left = on_right < 0
        lo, hi = torch.empty_like(extra), torch.empty_like(extra)
        for part, number, here in ((self.left, extra, is_left), (self.right, on_right, ~is_left)):
            lo[here], hi[here] = getattr(part, method)(number[here], n[here])
        return lo, hi


@dataclass(frozen=True)
class Union(_Pair, named=False):
    """Union of the edges of two topologies, written `left | right`.

    The extra nodes (nodes that are not tokens) of `left` come before those of `right`.

    Examples
    --------
    >>> from graphut.topology import Causal, Window
    >>> (Window(1) | Causal()).mask(3).int()
    tensor([[1, 1, 0],
            [1, 1, 1],
            [1, 1, 1]], dtype=torch.int32)
    """

    name = "|"

    def _ragged_keys(self, dst: Tensor, n_dst: Tensor, n_src: Tensor, width: int) -> Tensor:
        if not self.has_extra_nodes:
            each = dst, n_dst, n_src, width
            keys = self.left._edge_keys(*each), self.right._edge_keys(*each)
            return torch.cat(keys).unique()
        before = self.left.extra_nodes(n_dst)
        parts = (self.left, torch.zeros_like(before)), (self.right, before)
        return torch.cat([_keys_of_part(*part, dst, n_dst, width) for part in parts]).unique()

    def spec(self) -> str:
        """Return the spec `left|right`, with parentheses around a union on the right."""
        right = f"({self.right})" if isinstance(self.right, Union) else str(self.right)
        return f"{self.left}|{right}"


@dataclass(frozen=True)
class Intersection(_Pair, named=False):
    """Intersection of the edges of two topologies, written `left & right`.

    At most one of the topologies may have extra nodes (nodes that are not tokens). The other one
    treats an extra node as the last token that this node represents (see `Topology.extra_spans`).

    Examples
    --------
    >>> from graphut.topology import Causal, Window
    >>> (Window(1) & Causal()).mask(3).int()
    tensor([[1, 0, 0],
            [1, 1, 0],
            [0, 1, 1]], dtype=torch.int32)
    """

    name = "&"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.left.has_extra_nodes and self.right.has_extra_nodes:
            raise ValueError(
                f"{str(self.left)!r} and {str(self.right)!r} both have extra nodes: "
                "an intersection allows them on one side only"
            )
        known = self.left._known_causal or self.right._known_causal
        # Information can also travel through extra nodes.
        object.__setattr__(self, "_known_causal", known and not self.has_extra_nodes)

    @property
    def stable(self) -> bool:
        """True if appending tokens to a sentence never changes the edges among its earlier tokens.

        This is known if both sides are stable, or if one is causal and both have `stable_past`.
        """
        past = self.stable_past and (self.right.is_causal() or self.left.is_causal())
        return past or super().stable

    def interval(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> Interval | None:
        if self.has_extra_nodes:  # the two sides index extra nodes differently
            return None
        left = self.left.clipped_interval(dst, n_dst, n_src)
        right = self.right.clipped_interval(dst, n_dst, n_src)
        if left is None or right is None:
            return None
        return torch.maximum(left[0], right[0]), torch.minimum(left[1], right[1])

    def _ragged_keys(self, dst: Tensor, n_dst: Tensor, n_src: Tensor, width: int) -> Tensor:
        # List the edges of one side (the one with extra nodes, or else without intervals), and keep
        # the edges that the other side also has.
        listed, other = self.left, self.right
        by_interval = not listed.has_extra_nodes and listed.interval(dst, n_dst, n_src) is not None
        if other.has_extra_nodes or by_interval:
            listed, other = other, listed
        keys = listed._edge_keys(dst, n_dst, n_src, width)
        row, source = keys // width, keys % width
        if listed.has_extra_nodes:
            source = _last_token(listed, source, n_src[row])
            dst = _last_token(listed, dst, n_dst)
        interval = other.clipped_interval(dst, n_dst, n_src)
        if interval is not None:
            return keys[(source >= interval[0][row]) & (source < interval[1][row])]
        return keys[torch.isin(row * width + source, other._edge_keys(dst, n_dst, n_src, width))]

    def spec(self) -> str:
        """Return the spec `left&right`, with parentheses where necessary."""
        left = f"({self.left})" if isinstance(self.left, Union) else str(self.left)
        grouped = isinstance(self.right, (Union, Intersection))
        return f"{left}&({self.right})" if grouped else f"{left}&{self.right}"


operators.update({"|": Union, "&": Intersection})


def _keys_of_part(part: Topology, before: Tensor, dst: Tensor, n: Tensor, width: int) -> Tensor:
    """Return the keys `row * width + source` of the edges of `part`, one side of a union.

    In the union, the extra nodes of `part` follow `before` extra nodes of the other side.
    """
    extra = dst - n - before
    index = ((dst < n) | (extra >= 0) & (extra < part.extra_nodes(n))).nonzero()[:, 0]
    if not len(index):
        return index
    in_part = torch.where(dst < n, dst, n + extra)[index]
    keys = part._edge_keys(in_part, n[index], n[index], width)
    row, source = index[keys // width], keys % width
    return row * width + source + before[row] * (source >= n[row])


def _last_token(topology: Topology, node: Tensor, n: Tensor) -> Tensor:
    """Return the last token that each extra node represents; for a token, the token itself."""
    last, is_extra = node.clone(), node >= n
    tokens = n[is_extra]
    last[is_extra] = topology.extra_spans(node[is_extra] - tokens, tokens)[1] - 1
    return last
