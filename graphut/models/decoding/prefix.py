"""The plain decoder: it runs the whole prefix again for each token. Exact for every topology."""

from __future__ import annotations

import torch
from torch import Tensor

from graphut.attention import EdgeLayout
from graphut.models.decoding.decoder import RecurrenceDecoder
from graphut.topology import Complete, node_positions, token_nodes, with_extra_nodes
from graphut.topology.cross import cross_layout


class PrefixDecoder(RecurrenceDecoder):
    """A `TokenDecoder` without a cache; parameters as for `RecurrenceDecoder`.

    It is the reference for the cache, and takes topologies that change as a sentence grows.
    """

    def advance(self, parents: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Extend hypotheses by a token each; see `TokenDecoder`."""
        self.hypotheses.extend(parents.cpu(), tokens.cpu())
        prefixes, length = self.hypotheses.ids, self.hypotheses.length
        lengths = torch.full((len(prefixes),), length)
        feat = self.embed(prefixes.flatten().to(tokens.device))
        layout = self.topology.layout(lengths)
        out, ponder = self.recurrence(
            layout,
            with_extra_nodes(self.topology, feat, lengths),
            positions=node_positions(self.topology, lengths).to(feat.device),
            cross=self._cross(lengths, feat.device),
            graph_ids=self.hypotheses.sentences.repeat_interleave(layout.dst_lengths),
        )
        newest = token_nodes(self.topology, lengths)[length - 1 :: length].to(feat.device)
        return self.predict(out[newest]), ponder.steps[newest]

    def _cross(self, lengths: Tensor, device: torch.device) -> tuple[EdgeLayout, Tensor] | None:
        """Return the edges from sources into all tokens of each hypothesis, and the sources."""
        if self.source is None:
            return None
        sentences = self.hypotheses.sentences
        own = self.source.lengths[sentences]
        layout = cross_layout(
            self.source.topology, lengths, own, decoder=self.topology, encoder=Complete()
        )
        parts = self.source.feat.split(self.source.lengths.tolist())
        return layout, torch.cat([parts[sentence] for sentence in sentences.tolist()]).to(device)
