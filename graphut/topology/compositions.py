"""Named combinations of other topologies."""

from graphut.topology.base import Topology
from graphut.topology.global_tokens import Global, Virtual
from graphut.topology.random_graphs import Expander, Random
from graphut.topology.registry import register_composition
from graphut.topology.window import Window


@register_composition
def longformer(radius: int, global_tokens: int) -> Topology:
    """Return a window topology whose first tokens are global: Longformer (arXiv 2004.05150).

    Examples
    --------
    >>> longformer(16, 2).spec()
    'window:16|global:0,1'
    """
    return Window(radius) | Global(*range(global_tokens))


@register_composition
def bigbird(radius: int, global_tokens: int, links: int, seed: int = 0) -> Topology:
    """Return a Longformer with random links: BigBird (arXiv 2007.14062).

    Examples
    --------
    >>> bigbird(3, 2, 8, seed=7).spec()
    'window:3|global:0,1|random:8@7'
    """
    return longformer(radius, global_tokens) | Random(links, seed)


@register_composition
def exphormer(degree: int, virtual_nodes: int, seed: int = 0) -> Topology:
    """Return a path, an expander and virtual nodes: Exphormer (arXiv 2303.06147).

    Examples
    --------
    >>> exphormer(4, 1, seed=7).spec()
    'window:1|expander:4@7|virtual:1'
    """
    return Window(1) | Expander(degree, seed) | Virtual(virtual_nodes)
