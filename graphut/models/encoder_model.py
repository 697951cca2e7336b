"""The base of models without a decoder, which read the answer from the last node."""

from __future__ import annotations

from torch import Tensor

from graphut.attention.layout import upload
from graphut.models.base import AdaptiveModel
from graphut.models.config import EncoderConfig
from graphut.models.nodes import SentenceNodes
from graphut.models.recurrence import make_recurrence
from graphut.nn import Ponder
from graphut.topology import node_positions, parse


class EncoderModel(AdaptiveModel):
    """An encoder over the nodes of each text, of which the last one asks the question.

    Positions count from the first node, or back from the last one, so that those just before the
    question are always the same (arXiv 1503.08895, section 4.1). Or they count from the first node,
    and the last one has a position of its own, as in tensor2tensor, which fills up every story.
    """

    config: EncoderConfig

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        self.topology = parse(config.topology)
        self.encoder = make_recurrence(config)

    def _encode(
        self, feat: Tensor, lengths: Tensor, get_attention: bool
    ) -> tuple[Tensor, Tensor, Tensor, Ponder]:
        """Return states, the last state of each text, steps, and the record of all nodes.

        `feat`, `(nodes, d)`, are first states, and `lengths`, `(batch,)` int64 on the CPU, the
        numbers of nodes of the texts. Only the record has the extra nodes of the topology.
        """
        position = node_positions(self.topology, lengths)
        nodes = SentenceNodes(self.topology, lengths, position.new_empty(0), position)
        if self.config.positions == "end":
            position = nodes.expand(lengths + 1) - position
        elif self.config.positions == "fixed":
            is_last = position == nodes.expand(lengths)
            position = position.masked_fill(is_last, self.config.max_length)
        layout = nodes.checked_layout(self.topology.layout(lengths))
        position = nodes.positions(self._drawn_positions(lengths), position)
        last = lengths.cumsum(0) - 1
        layout, position, last = upload([layout, position, last], self.device)
        out, ponder, *_ = self.encoder(
            layout, nodes.first_states(feat), positions=position, get_attention=get_attention
        )
        states = nodes.select_tokens(out)
        return states, states[last], nodes.select_tokens(ponder.steps), ponder
