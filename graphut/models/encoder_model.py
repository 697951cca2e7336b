"""The base class of models with only an encoder, where the last node is the question."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from graphut.attention.layout import upload
from graphut.models.adaptive_model import AdaptiveModel
from graphut.models.config import EncoderConfig
from graphut.models.layer_builders import make_recurrence
from graphut.models.sentence_nodes import SentenceNodes
from graphut.nn import Ponder
from graphut.nn.call_state import FrontierRows
from graphut.topology import parse, token_nodes


class Encoded(NamedTuple):
    """The output of an encoder for a batch of texts."""

    states: Tensor  # (nodes, d)
    last: Tensor  # (batch,) int64, the last node of each text
    steps: Tensor  # (nodes,) int64
    ponder: Ponder  # of all nodes, including the extra nodes of the topology
    # With get_steps=True, for each step: the states after the step, (nodes, d), where halted nodes
    # keep their last state; and the indices, int64, of texts whose last node was active.
    by_step: list[tuple[Tensor, Tensor]] | None


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
        self, feat: Tensor, lengths: Tensor, get_attention: bool, get_steps: bool = False
    ) -> Encoded:
        """Encode texts, given the initial states of all nodes and the number of nodes per text."""
        last = lengths.cumsum(0) - 1
        no_tokens = lengths.new_empty(0)
        nodes = SentenceNodes.from_tokens(no_tokens, lengths, self.topology)
        position = nodes.position
        if self.config.positions == "end":
            position = nodes.expand(lengths + 1) - position
        elif self.config.positions == "fixed":
            questions = token_nodes(self.topology, lengths)[last]
            position = position.index_fill(0, questions, self.config.max_length)
        position = nodes.positions(self._drawn_positions(lengths), position)
        layout, position, last = upload([nodes.layout, position, last], self.device)
        out, ponder, *more = self.encoder(
            layout,
            nodes.first_states(feat),
            positions=position,
            get_attention=get_attention,
            get_steps=get_steps,
        )
        states = nodes.select_tokens(out)
        by_step = _by_step(nodes, torch.zeros_like(out), more[-1], last) if get_steps else None
        return Encoded(states, last, nodes.select_tokens(ponder.steps), ponder, by_step)


def _by_step(
    nodes: SentenceNodes, states: Tensor, steps: list[FrontierRows], last: Tensor
) -> list[tuple[Tensor, Tensor]]:
    questions = nodes.select_tokens(torch.arange(len(states), device=states.device))[last]
    by_step = []
    for rows in steps:
        states = states.index_copy(0, rows.nodes, rows.states)
        active = torch.isin(questions, rows.nodes).nonzero()[:, 0]
        by_step.append((nodes.select_tokens(states), active))
    return by_step
