"""Random topologies that depend only on a seed: `Random` and `Expander`."""

from dataclasses import dataclass

from graphut._torch import Tensor, torch
from graphut.topology.base import Topology


@dataclass(frozen=True)
class Random(Topology, minimum={"links": 1}):
    """Random links: attend to random tokens, half of them before the destination and half after.

    The random attention of BigBird (arXiv 2007.14062). BigBird draws from the whole sentence; here
    half of the `links` sources come from each side (an odd one from before), so the sources before
    a token do not change when the sentence grows: `Random(...).causal()` is stable. The sources are
    distinct and never include the destination. They are a function of the seed, the position of the
    destination and, for later sources, the length of the sentence. There are about `n * links`
    edges: a side with fewer tokens than its share is used completely.

    Examples
    --------
    >>> Random(2, seed=7).mask(5)[3].int()  # the sources of destination 3
    tensor([0, 0, 1, 0, 1], dtype=torch.int32)
    """

    name = "random"
    stable_past = True

    links: int
    seed: int = 0

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        before, after = self.links - self.links // 2, self.links // 2
        back = random_choice(dst, before, self.seed, dst, 0)
        ahead = random_choice((n_src - dst - 1).clamp(min=0), after, self.seed, dst, 1)
        ahead = torch.where(ahead < 0, -1, ahead + dst[:, None] + 1)
        source = torch.cat([back, ahead], dim=1)
        return torch.arange(len(dst)).repeat_interleave(source.shape[1]), source.flatten()


@dataclass(frozen=True)
class Expander(Topology, minimum={"degree": 2}):
    """Expander graph: the union of random cycles through all tokens of the sentence.

    The expander graph of Exphormer (arXiv 2303.06147): random, symmetric and regular. It is the
    union of `degree / 2` cycles; with a degree of at least 4 the diameter is small. There are at
    most `degree * n` edges, fewer where two cycles share an edge or a cycle has fewer than 3
    tokens; a single token attends to itself. The edges are a function of the seed and the length of
    the sentence, so the topology is not stable.

    Examples
    --------
    >>> Expander(2, seed=1).mask(5).sum(1)
    tensor([2, 2, 2, 2, 2])
    """

    name = "expander"

    degree: int
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.degree % 2:
            raise ValueError(f"expander: degree must be even, got {self.degree}")

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        size = torch.maximum(n_dst, n_src)
        source = torch.empty(len(dst), self.degree, dtype=torch.int64)
        for n in size.unique().tolist():
            rows = (size == n).nonzero()[:, 0]
            for cycle in range(self.degree // 2):
                order = random_bits(self.seed, cycle, torch.arange(n)).argsort(stable=True)
                neighbours = torch.empty(n, 2, dtype=torch.int64)  # of every token on the cycle
                neighbours[order] = torch.stack([order.roll(1), order.roll(-1)], dim=1)
                source[rows, 2 * cycle : 2 * cycle + 2] = neighbours[dst[rows]]
        return torch.arange(len(dst)).repeat_interleave(self.degree), source.flatten()


def random_bits(seed: int, *keys: Tensor | int) -> Tensor:
    """Hash a seed and broadcastable integer `keys` to uniform integers below `2^32`."""
    from graphut.attention.dropout import mix

    low, high = (torch.tensor(half & 0xFFFFFFFF) for half in (seed, seed >> 32))
    bits = mix(low ^ mix(high))
    for key in keys:
        bits = mix(bits ^ mix(torch.as_tensor(key) + 0x9E3779B9))
    return bits


def random_choice(size: Tensor, count: int, seed: int, *keys: Tensor | int) -> Tensor:
    """Choose `count` distinct random integers from 0 to `size[i] - 1`, for each row `i`.

    All sets of integers are equally likely (Floyd's algorithm). `size`, `(D,)` int64, is at most
    `2^31`. If a size is below `count`, all integers are chosen. The choice is a hash of the seed
    and of `keys`, integers or `(D,)` tensors. The result is `(D, min(count, max(size)))`; missing
    entries are -1.
    """
    chosen = torch.full((len(size), min(count, int(size.max()))), -1)
    for column in range(chosen.shape[1]):
        last = (size - count).clamp(min=0) + column
        bits = random_bits(seed, *keys, column)
        number = (bits * (last + 1)) >> 32
        is_repeated = (chosen[:, :column] == number[:, None]).any(1)
        chosen[:, column] = torch.where(last < size, torch.where(is_repeated, last, number), -1)
    return chosen
