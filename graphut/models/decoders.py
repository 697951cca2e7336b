"""Decoders that extend a batch of hypotheses token by token, with a key/value cache and without.

With a causal topology, the states of a token depend only on earlier tokens, so it is enough to
store their keys and values at each step. A computed token is a node with an id in the cache, and a
hypothesis is a list of ids. Hypotheses with a common prefix share nodes instead of copying them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from graphut.attention import EdgeLayout
from graphut.attention.layout import CSRLayout
from graphut.attention.ragged import starts
from graphut.models.sentence_nodes import no_in_edge
from graphut.nn import AdaptiveRecurrence
from graphut.nn.call import Call, run_call
from graphut.nn.layers import Transition
from graphut.nn.separable_conv import SeparableConvTransition
from graphut.nn.step import EncoderOutput, Store
from graphut.topology import Complete, Topology, node_positions, token_nodes, with_extra_nodes
from graphut.topology.cross import cross_layout, cross_rows


@dataclass(frozen=True, eq=False)
class EncodedSource:
    """The encoder's output for a batch of sentences."""

    feat: Tensor  # (N_src, d)
    lengths: Tensor  # (batch,) int64 on the CPU, tokens of each sentence
    topology: Topology  # of cross-attention
    # Of a complete topology: the last sentences, and their edges, which all positions share.
    _last: list[Any] = field(default_factory=list)

    def edges_to(self, sentences: Tensor, position: int) -> EdgeLayout:
        """Return the edges into target token `position` from the sources numbered `sentences`."""
        if self._last and torch.equal(self._last[0], sentences):
            kept: EdgeLayout = self._last[1]
            return kept
        n_src, first = self.lengths[sentences], starts(self.lengths)[sentences]
        dst = torch.full_like(n_src, position)
        layout = cross_rows(
            self.topology,
            dst,
            dst + 1,
            n_src,
            first,
            num_src=int(self.lengths.sum()),
            dst_lengths=torch.ones_like(n_src),
            src_lengths=self.lengths,
        )
        if self.topology.spec() == Complete().spec():
            self._last[:] = sentences, layout
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


class CachedDecoder(TokenDecoder):
    """A decoder with a cache; on stable topologies its results are those of `PrefixDecoder`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.encoded = None if self.source is None else EncoderOutput(self.source.feat)
        self.key_values = StepCache(self.recurrence.max_steps)
        self.combined = StepCache(self.recurrence.max_steps)  # inputs of a separable convolution
        self.first, self.used = 0, 0  # id of the first newest token, and number of ids
        self._sources: list[Tensor] = []  # of the next positions, the last position first

    def advance(self, parents: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        self.first, self.used, feat = self.used, self.used + len(tokens), self.embed(tokens)
        self.extend(parents.cpu(), torch.arange(self.first, self.used))
        positions = torch.full((len(feat),), self.length, device=feat.device)
        call = Call(self.recurrence).begin(_NewestTokens(self, feat.device), feat, positions)
        result = run_call(call)
        return self.predict(call.steps[-1].readout(result.out)), result.steps

    def next_sources(self) -> Tensor:
        """Return the positions, from 0, that the newest token of a hypothesis attends to."""
        if not self._sources:
            place = torch.arange(self.length - 1, self.length + 31)
            row, source = self.topology.sorted_in_edges(place, place + 1, place + 1)
            self._sources = [*source.split(row.bincount(minlength=len(place)).tolist())][::-1]
        sources = self._sources.pop()
        if not len(sources):
            raise no_in_edge(self.topology, self.length - 1)
        return sources


class _NewestTokens(Store):
    """The store of one token: each hypothesis's newest token attends to cached tokens."""

    is_cache, replaces_all = True, False

    def __init__(self, decoder: CachedDecoder, device: torch.device) -> None:
        paths, sources, last = decoder.ids, decoder.next_sources(), decoder.length - 1
        cross_layout = None
        if decoder.source is not None:
            cross_layout = decoder.source.edges_to(decoder.sentences, last).to(device)
        capacity = decoder.key_values.capacity(decoder.used)
        seen = paths if len(sources) == decoder.length else paths[:, sources]
        rows, size = seen.shape
        layout = CSRLayout(
            indptr=torch.arange(0, rows * size + 1, size),
            indices=seen.flatten(),
            num_src=capacity,
            dst_lengths=torch.ones(rows, dtype=torch.int64),
            src_lengths=torch.tensor([capacity]),
            _facts={"empty_rows": 0},
        )
        super().__init__(layout.to(device), cross_layout=cross_layout, encoded=decoder.encoded)
        self._decoder, self._paths = decoder, paths.to(device)

    def any_active(self, count: int) -> bool:
        return True

    def write(self, nodes: Tensor | None, key_value: Tensor) -> None:
        cache = self._decoder.key_values
        cache.write(self._decoder.first, nodes, self.step, key_value)
        if self.memory is None:
            self.table = cache.at(self.step)
        else:
            self.memory.write(None, cache.at(self.step))

    def feed_forward(self, transition: Transition, rows: Tensor) -> Tensor:
        if not isinstance(transition, SeparableConvTransition):
            return super().feed_forward(transition, rows)
        cache = self._decoder.combined
        cache.capacity(self._decoder.used)
        cache.write(self._decoder.first, self.frontier, self.step, rows)
        paths = self._paths if self.frontier is None else self._paths[self.frontier]
        taps = paths[:, -transition.kernel_size :]
        missing = transition.kernel_size - taps.shape[1]
        return transition.convolve(pad(cache.at(self.step)[taps], (0, 0, missing, 0)))


class StepCache:
    """A cache with one vector per node and step; after a node's last step, it is repeated."""

    def __init__(self, max_steps: int) -> None:
        self._steps, self._capacity = max_steps, 0
        self._rows: Tensor | None = None  # (max_steps, capacity, width)

    def capacity(self, nodes: int) -> int:
        """Return the number of nodes that fit into the cache, at least `nodes`."""
        while self._capacity < nodes:
            self._capacity = 2 * self._capacity or 16 * nodes
        if self._rows is not None and self._rows.shape[1] < self._capacity:
            self._rows = pad(self._rows, (0, 0, 0, self._capacity - self._rows.shape[1]))
        return self._capacity

    def write(self, first: int, nodes: Tensor | None, step: int, rows: Tensor) -> None:
        """Store vectors for `step`, from 1, and for all later steps.

        `rows[i]` is the vector of node `first + nodes[i]`, or of node `first + i` without `nodes`.
        """
        if self._rows is None:
            self._rows = rows.new_zeros(self._steps, self._capacity, rows.shape[1])
        later = self._rows[step - 1 :]
        if nodes is None:
            later[:, first : first + len(rows)] = rows
        else:
            later.index_copy_(1, first + nodes, rows.expand(len(later), -1, -1))

    def at(self, step: int) -> Tensor:
        """Return the vectors of all nodes at `step`, `(capacity, width)`."""
        assert self._rows is not None
        return self._rows[step - 1]
