"""Topologies with nodes that attend to all tokens, and BigBird, a combination with them."""

from dataclasses import dataclass

from graphut._torch import Tensor, torch
from graphut.attention.ragged import ragged_arange
from graphut.topology.base import Topology
from graphut.topology.batch import Interval
from graphut.topology.random_graphs import Random
from graphut.topology.registry import register
from graphut.topology.window import Window


@dataclass(frozen=True)
class Global(Topology):
    """Global tokens: they attend to all tokens, and all tokens attend to them.

    `tokens` are the positions of the global tokens, from 0. Positions beyond the end of a sentence
    are ignored. The symmetric global attention of Longformer (arXiv 2004.05150) and BigBird (arXiv
    2007.14062): `2 * g * n - g^2` edges for `g` global tokens.

    Examples
    --------
    >>> Global(0, 2).mask(4).int()
    tensor([[1, 1, 1, 1],
            [1, 0, 1, 0],
            [1, 1, 1, 1],
            [1, 0, 1, 0]], dtype=torch.int32)
    """

    name = "global"
    stable = True

    tokens: tuple[int, ...]

    def __init__(self, *tokens: int) -> None:
        object.__setattr__(self, "tokens", tokens)
        self.__post_init__()
        tokens = self.tokens
        if not tokens or min(tokens) < 0:
            raise ValueError(
                f"global: needs at least one position, all of them at least 0; got {tokens}"
            )
        object.__setattr__(self, "tokens", tuple(sorted(set(tokens))))

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        tokens = torch.tensor(self.tokens)
        sees_all = torch.isin(dst, tokens)
        row, position = ragged_arange(torch.where(sees_all, n_src, len(tokens)))
        global_token = tokens[position.clamp(max=len(tokens) - 1)]
        return row, torch.where(sees_all[row], position, global_token)


@dataclass(frozen=True)
class Virtual(Topology, minimum={"nodes": 1}):
    """Virtual nodes: extra nodes that attend to all tokens, and that all tokens attend to.

    The virtual nodes of Exphormer (arXiv 2303.06147): `2 * nodes * n` edges. Their first state is
    zero. In `causal()` only the last token attends to them and other tokens have no in-edges, so a
    decoder needs a union: `window:8&causal|virtual:1&causal`.

    Examples
    --------
    >>> Virtual(1).mask(3)[0].int()  # only the virtual node
    tensor([0, 0, 0, 1], dtype=torch.int32)
    """

    name = "virtual"

    nodes: int

    def interval(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> Interval:
        token = dst < n_dst
        return torch.where(token, n_src, 0), torch.where(token, n_src + self.nodes, n_src)

    def extra_nodes(self, n: Tensor) -> Tensor:
        return torch.full_like(n, self.nodes)

    def extra_starts(self, extra: Tensor, n: Tensor) -> Interval:
        return torch.zeros_like(n), torch.zeros_like(n)


@dataclass(frozen=True)
class Star(Topology):
    """Star: a ring of all tokens, and one relay node that is connected to all of them.

    The Star-Transformer (arXiv 1902.09113). Each token attends to itself, to its neighbour on each
    side (the first and the last token are neighbours) and to the relay. The relay attends to all
    tokens and to itself, and its first state is the mean of the tokens. There are `5n + 1` edges
    for at least 3 tokens.

    In `causal()` only the last token attends to the relay. In training it is the end of the
    sentence, but in generation each new token is the last, so the two differ. A decoder should
    instead use `binary_partition:1&causal` or a global token (`window:1&causal|global:0&causal`).

    Examples
    --------
    >>> Star().mask(4)[0].int()  # itself, its neighbours and the relay
    tensor([1, 1, 0, 1, 1], dtype=torch.int32)
    """

    name = "star"

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        relay = dst == n_dst
        row, position = ragged_arange(torch.where(relay, n_src + 1, 4))
        n, i = n_src[row], dst[row]
        ring = torch.where(position < 3, (i + position - 1) % n, n)
        return row, torch.where(relay[row], position, ring)

    def extra_nodes(self, n: Tensor) -> Tensor:
        return torch.ones_like(n)


def bigbird(radius: int, global_tokens: int, links: int, seed: int = 0) -> Topology:
    """Return a window, global tokens and random links: BigBird (arXiv 2007.14062).

    Examples
    --------
    >>> bigbird(3, 2, 8, seed=7).spec()
    'window:3|global:0,1|random:8@7'
    """
    return Window(radius) | Global(*range(global_tokens)) | Random(links, seed)


register(bigbird.__name__, bigbird)
