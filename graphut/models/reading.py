"""What models share that read a text and say one thing of it."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from graphut.models.base import AdaptiveModel
from graphut.models.config import ReadingConfig
from graphut.models.nodes import SentenceNodes
from graphut.models.recurrence import make_recurrence
from graphut.nn import Ponder
from graphut.topology import node_positions, parse


class ReadingModel(AdaptiveModel):
    """An encoder over the nodes of each text, of which the last one is what is asked for.

    Nodes are counted from the first one, or back from the last one, so that what was said just
    before the question is always at the same position (arXiv 1503.08895, section 4.1).
    """

    config: ReadingConfig

    def __init__(self, config: ReadingConfig) -> None:
        super().__init__(config)
        self.topology = parse(config.topology)
        self.encoder = make_recurrence(config)

    def _ponder(self, feat: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Ponder]:
        """States and steps of the nodes that texts have themselves, and the record of all.

        Parameters
        ----------
        feat : Tensor
            `(nodes, d)`, their first states; those of extra nodes come from them.
        lengths : Tensor
            `(batch,)` int64 on the CPU, how many nodes each text has.
        """
        place = node_positions(self.topology, lengths).to(self.device)
        nodes = SentenceNodes(self.topology, lengths, place.new_empty(0), place)
        if self.config.positions == "end":
            nodes = replace(nodes, position=nodes.of_nodes(lengths + 1) - place)
        out, ponder = self.encoder(
            nodes.seeing(self.topology.layout(lengths)),
            nodes.first_states(lambda _: feat),
            positions=nodes.positions(self._drawn_positions(lengths)),
        )
        return nodes.tokens_of(out), nodes.tokens_of(ponder.steps), ponder


def last_of(rows: Tensor, lengths: Tensor) -> Tensor:
    """The last row of each text, out of one a node.

    Examples
    --------
    >>> import torch
    >>> last_of(torch.tensor([4, 5, 6, 7]), torch.tensor([3, 1]))
    tensor([6, 7])
    """
    return rows[(lengths.cumsum(0) - 1).to(rows.device)]
