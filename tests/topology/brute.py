"""Two topologies of the tests' own, and every topology's mask from its definition, pair by pair."""

from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor

from graphut import topology as tp
from graphut.topology import Causal, Complete, Intersection, Topology, Union, Window


@dataclass(frozen=True)
class Back(Topology):
    """Destination `i` sees the source `i - steps` only: runs that may be empty."""

    name = "test_back"
    stable = True
    steps: int

    def interval(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        return dst - self.steps, dst - self.steps + 1


@dataclass(frozen=True)
class Comb(Topology):
    """Every destination sees the multiples of `step`; edges come unsorted, twice, too far."""

    name = "test_comb"
    step: int = 2

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        teeth = torch.arange(-self.step, 3 * int(n_src.max()), self.step).flip(0)
        row = torch.arange(len(dst)).repeat_interleave(len(teeth))
        return row.repeat(2), teeth.repeat(2 * len(dst))


def sees(topology: Topology, i: int, j: int) -> bool:
    """Whether token `i` sees token `j`, where that depends on nothing else."""
    match topology:
        case Complete():
            return True
        case Causal():
            return j <= i
        case Window(radius):
            return abs(i - j) <= radius
        case Back(steps):
            return j == i - steps
        case Comb(step):
            return j % step == 0
        case tp.Dilated(radius, dilation):
            return (i - j) % dilation == 0 and abs(i - j) <= radius * dilation
        case tp.Strided(stride):
            return j <= i and (i - j <= stride or (i - j) % stride == 0)
        case tp.Global(tokens):
            return i in tokens or j in tokens
        case tp.Patch(width, radius):
            return abs(i // width - j // width) <= radius and abs(i % width - j % width) <= radius
        case tp.Axial(width):
            return i // width == j // width or i % width == j % width
        case tp.Edges(ends):
            return (j, i) in list(zip(ends[::2], ends[1::2], strict=True))
    raise TypeError(topology)


def brute_mask(topology: Topology, n_dst: int, n_src: int) -> Tensor:
    match topology:
        case Union(left, right) | Intersection(left, right):
            one, other = brute_mask(left, n_dst, n_src), brute_mask(right, n_dst, n_src)
            if left.has_extra_nodes or right.has_extra_nodes:
                one, other = aligned(topology, one, other, n_dst)
            return one | other if isinstance(topology, Union) else one & other
        case tp.Random(links, seed):
            return random_mask(links, seed, n_dst, n_src)
        case tp.Expander(degree, seed):
            return expander_mask(degree, seed, max(n_dst, n_src))[:n_dst, :n_src]
        case tp.Virtual() | tp.Star() | tp.BinaryPartition():
            return mask_with_extra_nodes(topology, n_dst)
    return torch.tensor([[sees(topology, i, j) for j in range(n_src)] for i in range(n_dst)])


def brute_batch_mask(topology: Topology, dst: list[int], src: list[int]) -> Tensor:
    return torch.block_diag(*(brute_mask(topology, n, m) for n, m in zip(dst, src, strict=True)))


LOW = 0xFFFFFFFF


def mix(bits: int) -> int:
    """MurmurHash3's finaliser."""
    bits &= LOW
    bits = (bits ^ bits >> 16) * 0x85EBCA6B & LOW
    bits = (bits ^ bits >> 13) * 0xC2B2AE35 & LOW
    return bits ^ bits >> 16


def draw(seed: int, *keys: int) -> int:
    bits = mix((seed & LOW) ^ mix(seed >> 32))
    for key in keys:
        bits = mix(bits ^ mix(key + 0x9E3779B9))
    return bits


def choice(size: int, count: int, seed: int, *keys: int) -> set[int]:
    """Floyd's algorithm as in the book."""
    chosen: set[int] = set()
    for column, last in enumerate(range(max(size - count, 0), size)):
        number = draw(seed, *keys, column) * (last + 1) // 2**32
        chosen.add(last if number in chosen else number)
    return chosen


def random_mask(links: int, seed: int, n_dst: int, n_src: int) -> Tensor:
    mask = torch.zeros(n_dst, max(n_dst, n_src), dtype=torch.bool)
    for i in range(n_dst):
        mask[i, list(choice(i, links - links // 2, seed, i, 0))] = True
        later = choice(max(n_src - i - 1, 0), links // 2, seed, i, 1)
        mask[i, [i + 1 + j for j in later]] = True
    return mask[:, :n_src]


def expander_mask(degree: int, seed: int, n: int) -> Tensor:
    mask = torch.zeros(n, n, dtype=torch.bool)
    for ring in range(degree // 2):
        order = sorted(range(n), key=lambda i: draw(seed, ring, i))
        for i, j in zip(order, [*order[1:], order[0]], strict=True):
            mask[i, j] = mask[j, i] = True
    return mask


Span = tuple[int, int]


def spans_of(topology: Topology, n: int) -> list[Span]:
    """The tokens `lo, ..., hi - 1` that each extra node stands for."""
    match topology:
        case tp.Star():
            return [(0, n)]
        case tp.Virtual(nodes):
            return [(0, n)] * nodes
        case tp.BinaryPartition():
            sizes = [2**level for level in range(1, n.bit_length() + 1)]
            blocks = {(lo, min(lo + size, n)) for size in sizes for lo in range(0, n, size)}
            # By the level at which they have two halves.
            longer = [(lo, hi) for lo, hi in blocks if hi - lo > 1]
            return sorted(longer, key=lambda span: ((span[1] - span[0] - 1).bit_length(), span))
        case Union(left, right) | Intersection(left, right):
            return spans_of(left, n) + spans_of(right, n)
    return []


def mask_with_extra_nodes(topology: Topology, n: int) -> Tensor:
    spans = spans_of(topology, n)
    mask = torch.zeros(n + len(spans), n + len(spans), dtype=torch.bool)
    for node, (lo, hi) in enumerate(spans, start=n):
        mask[node, lo:hi] = True
    match topology:
        case tp.Virtual():
            mask[:n, n:] = True
        case tp.Star():
            mask[:, n] = True
            for i in range(n):
                mask[i, [(i - 1) % n, i, (i + 1) % n]] = True
        case tp.BinaryPartition(k):
            nodes = {(i, i + 1): i for i in range(n)}
            nodes |= {span: node for node, span in enumerate(spans, start=n)}
            for i in range(n):
                mask[i, [i] + [nodes[span] for span in context(i, n, k)]] = True
    return mask


def context(i: int, n: int, k: int) -> list[Span]:
    """Return the spans that token `i` reads: of each size the nearest `k` to its left and right."""
    found = []
    right, left = i + 1, i  # seen so far are the tokens left, ..., right - 1
    for size in (2**level for level in range(n.bit_length() + 1)):
        for _ in range(k):
            if right < n:
                end = (right // size + 1) * size  # of the block, or of what is left of it
                found.append((right, min(end, n)))
                right = end
            if left > 0:
                start = (left - 1) // size * size
                found.append((start, left))
                left = start
    return found


def aligned(topology: Topology, left: Tensor, right: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Masks of the two sides of a pair over all nodes of the pair."""
    if isinstance(topology, Union):
        extra = len(left) - n
        size = len(left) + len(right) - n
        all_left, all_right = torch.zeros(2, size, size, dtype=torch.bool)
        all_left[: len(left), : len(left)] = left
        at = torch.tensor([*range(n), *range(n + extra, size)])
        all_right[at[:, None], at] = right
        return all_left, all_right
    last = torch.tensor([*range(n), *(hi - 1 for _, hi in spans_of(topology, n))])
    if len(left) > n:
        return left, right[last[:, None], last]
    return (left[last[:, None], last], right) if len(right) > n else (left, right)


small = st.integers(1, 4)
of_tokens: st.SearchStrategy[Topology] = st.one_of(
    st.just(Complete()),
    st.just(Causal()),
    st.builds(Window, st.integers(0, 4)),
    st.builds(Back, st.integers(-3, 3)),
    st.builds(Comb, st.integers(1, 3)),
    st.builds(tp.Dilated, st.integers(0, 3), small),
    st.builds(tp.Strided, small),
    st.lists(st.integers(0, 6), min_size=1, max_size=3).map(lambda at: tp.Global(*at)),
    st.builds(tp.Random, small, st.integers(-3, 3)),
    st.builds(tp.Patch, small, st.integers(0, 2)),
    st.builds(tp.Axial, small),
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=9).map(
        lambda pairs: tp.Edges(*(end for pair in pairs for end in pair))
    ),
    st.builds(tp.Expander, st.sampled_from([2, 4]), st.integers(-3, 3)),
)
topologies = st.recursive(
    of_tokens,
    lambda part: st.builds(Union, part, part) | st.builds(Intersection, part, part),
    max_leaves=4,
)
with_extra_nodes: st.SearchStrategy[Topology] = st.recursive(
    st.one_of(
        st.just(tp.Star()),
        st.builds(tp.Virtual, st.integers(1, 2)),
        st.builds(tp.BinaryPartition, st.integers(1, 3)),
    ),
    lambda part: st.one_of(
        st.builds(Union, part, part | topologies),
        st.builds(Union, topologies, part),
        st.builds(Intersection, part, topologies),
        st.builds(Intersection, topologies, part),
    ),
    max_leaves=3,
)
lengths = st.integers(1, 7)
batches = st.lists(lengths, min_size=1, max_size=4)
pairs = st.lists(st.tuples(lengths, lengths), min_size=1, max_size=4).map(
    lambda both: ([n for n, _ in both], [m for _, m in both])
)
