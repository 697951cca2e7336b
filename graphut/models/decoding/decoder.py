"""The base class of decoders that a search uses, and a decoder without a cache."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from graphut.attention import EdgeLayout
from graphut.attention.ragged import starts
from graphut.nn import AdaptiveRecurrence
from graphut.topology import Complete, Topology, node_positions, token_nodes, with_extra_nodes
from graphut.topology.cross import check_has_sources, cross_layout


@dataclass(frozen=True, eq=False)
class EncodedSource:
    """The encoder's output for a batch of sentences."""

    feat: Tensor  # (N_src, d)
    lengths: Tensor  # (batch,) int64 on the CPU, tokens of each sentence
    topology: Topology  # of cross-attention, from `graphut.topology.cross.cross_topology`
    # Of a complete topology: the last sentences, and their edges, which all positions share.
    _last: list[Any] = field(default_factory=list)

    def edges_to(self, sentences: Tensor, position: int) -> EdgeLayout:
        """Return the edges into target token `position` from the sources numbered `sentences`."""
        if self._last and torch.equal(self._last[0], sentences):
            kept: EdgeLayout = self._last[1]
            return kept
        layout = self._edges_to(sentences, position)
        if self.topology.spec() == Complete().spec():
            self._last[:] = sentences, layout
        return layout

    def _edges_to(self, sentences: Tensor, position: int) -> EdgeLayout:
        n_src, first = self.lengths[sentences], starts(self.lengths)[sentences]
        dst = torch.full_like(n_src, position)
        layout = self.topology.layout_of_rows(
            dst,
            dst + 1,
            n_src,
            first,
            num_src=int(self.lengths.sum()),
            dst_lengths=torch.ones_like(n_src),
            src_lengths=self.lengths,
        )
        check_has_sources(self.topology, layout, dst)
        return layout


@dataclass(eq=False)
class TokenDecoder(ABC):
    """A batch of hypotheses that grow by one token at a time."""

    recurrence: AdaptiveRecurrence
    source: EncodedSource | None  # for cross-attention; None without it
    topology: Topology  # of self-attention, causal
    embed: Callable[[Tensor], Tensor]  # from (B,) tokens to (B, d) first states
    predict: Callable[[Tensor], Tensor]  # from (B, d) output states to logits
    sentences: Tensor  # (B,) int64 on the CPU, the index of the sentence of each hypothesis

    def __post_init__(self) -> None:
        rule = self.recurrence.active_rule
        if not rule.fits_decoders:
            raise ValueError(f"{rule} cannot decode: the states of a token depend on later tokens")
        # (B, length) on the CPU: tokens, or ids of cached nodes
        self.ids = self.sentences.new_empty(len(self.sentences), 0)

    @property
    def length(self) -> int:
        """The number of tokens of each hypothesis."""
        return self.ids.shape[1]

    def extend(self, parents: Tensor, ids: Tensor) -> None:
        """Replace hypothesis `i` by hypothesis `parents[i]` followed by `ids[i]`."""
        self.ids = torch.cat([self.ids[parents], ids[:, None]], 1)
        self.sentences = self.sentences[parents]

    @abstractmethod
    def advance(self, parents: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Replace hypothesis `i` by hypothesis `parents[i]` followed by token `tokens[i]`.

        Both arguments are `(B,)` int64. Run the model, and return `(B, vocabulary)`, the logits of
        the next token, and `(B,)`, the number of steps of the appended token.
        """


class PrefixDecoder(TokenDecoder):
    """A decoder for all causal topologies, which runs the whole prefix again for each token."""

    def advance(self, parents: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        self.extend(parents.cpu(), tokens.cpu())
        length, lengths = self.length, torch.full((len(self.ids),), self.length)
        feat = self.embed(self.ids.flatten().to(tokens.device))
        layout = self.topology.layout(lengths)
        out, ponder = self.recurrence(
            layout,
            with_extra_nodes(self.topology, feat, lengths),
            positions=node_positions(self.topology, lengths).to(feat.device),
            cross=self._cross(lengths, feat.device),
            graph_ids=self.sentences.repeat_interleave(layout.dst_lengths),
        )
        newest = token_nodes(self.topology, lengths)[length - 1 :: length].to(feat.device)
        return self.predict(out[newest]), ponder.steps[newest]

    def _cross(self, lengths: Tensor, device: torch.device) -> tuple[EdgeLayout, Tensor] | None:
        """Return the edges of cross-attention and the source states, one copy per hypothesis."""
        if self.source is None:
            return None
        src_lengths = self.source.lengths[self.sentences]
        layout = cross_layout(
            self.source.topology, lengths, src_lengths, decoder=self.topology, encoder=Complete()
        )
        parts = self.source.feat.split(self.source.lengths.tolist())
        return layout, torch.cat([parts[each] for each in self.sentences.tolist()]).to(device)
