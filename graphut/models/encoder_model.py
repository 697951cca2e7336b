"""The base class of models with only an encoder, where the last node is the question."""

from typing import Any

from torch import Tensor

from graphut.attention.layout import upload
from graphut.models.adaptive_model import AdaptiveModel
from graphut.models.config import EncoderConfig
from graphut.models.layer_builders import make_recurrence
from graphut.models.sentence_nodes import SentenceNodes
from graphut.nn import Ponder
from graphut.nn.call_state import FrontierRows
from graphut.topology import parse, token_nodes


class EncoderModel(AdaptiveModel):
    """A base class of models that encode texts; the last node (word or sentence) is the question.

    With `positions="end"`, positions count backwards from the last node (arXiv 1503.08895, section
    4.1). With `"fixed"`, the last node always has position `max_length`, as in tensor2tensor, which
    pads every story to one length.
    """

    config: EncoderConfig

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        self.topology = parse(config.topology)
        self.encoder = make_recurrence(config)

    def _encode(
        self, feat: Tensor, lengths: Tensor, **options: Any
    ) -> tuple[SentenceNodes, Tensor, Tensor, Ponder, list[FrontierRows]]:
        """Encode texts, given the first states of their tokens and the numbers of tokens.

        Return the nodes, the index of the last token of each text, the final states of the nodes,
        the record, and the states after each step with the option `get_steps`.
        """
        last = lengths.cumsum(0) - 1
        nodes = SentenceNodes.from_tokens(lengths.new_empty(0), lengths, self.topology)
        position = nodes.position
        if self.config.positions == "end":
            position = nodes.expand(lengths + 1) - position
        elif self.config.positions == "fixed":
            questions = token_nodes(self.topology, lengths)[last]
            position = position.index_fill(0, questions, self.config.max_length)
        position = nodes.positions(self._drawn_positions(lengths), position)
        layout, position, last = upload([nodes.layout, position, last], self.device)
        feat = nodes.first_states(feat)
        out, ponder, *more = self.encoder(layout, feat, positions=position, **options)
        return nodes, last, out, ponder, more[-1] if options.get("get_steps") else []
