"""A decoder with a key/value cache, which computes each token once.

With a causal topology, the states of a token depend only on earlier tokens, so it is enough to
store their keys and values at each step. A computed token is a node with an id in the cache, and a
hypothesis is a list of ids. Hypotheses with a common prefix share nodes instead of copying them.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from graphut.attention import IntervalLayout
from graphut.models.decoding.decoder import TokenDecoder
from graphut.models.sentence_nodes import no_in_edge
from graphut.nn import MultiHeadAttention
from graphut.nn.call_state import EncoderOutput, GraphContext, LoopState
from graphut.nn.loop import run_loop
from graphut.nn.planning import make_plan
from graphut.nn.transition import SeparableConvTransition, Transition


@dataclass(eq=False)
class CachedDecoder(TokenDecoder):
    """A decoder with a cache; on stable topologies its results are those of `PrefixDecoder`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.encoded = None if self.source is None else EncoderOutput(self.source.feat)
        self.memory = RaggedCache(self.recurrence.max_steps)  # keys and values
        self.combined = RaggedCache(self.recurrence.max_steps)  # inputs of a separable convolution

    def advance(self, parents: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        parents = parents.cpu()
        feat = self.embed(tokens)
        self.combined.add_nodes(len(parents))
        self.extend(parents, self.memory.add_nodes(len(parents)))
        length = self.length
        positions = torch.full((len(feat),), length, device=feat.device)
        context = _NewestTokens(self)
        plan = make_plan(self.recurrence, feat)
        state = LoopState(plan, context, feat, positions, len(feat), fill_cache=True)
        result = run_loop(state)
        return self.predict(result.out), result.steps


class _NewestTokens(GraphContext):
    """The context of a decoding step: each hypothesis's newest token attends to cached tokens."""

    def __init__(self, decoder: CachedDecoder) -> None:
        self.decoder = decoder
        self.paths = decoder.ids
        length = decoder.length
        tokens = torch.tensor([length])
        _, sources = decoder.topology.sorted_in_edges(tokens - 1, tokens, tokens)
        if not len(sources):
            raise no_in_edge(decoder.topology, length - 1)
        self._sources = self.paths[:, sources]
        self._distances = length - 1 - sources
        if decoder.source is not None:
            layout = decoder.source.edges_to(decoder.sentences, length - 1)
            self._cross_layout = layout.to(decoder.source.feat.device)

    @property
    def num_dst(self) -> int:
        return len(self.paths)

    num_src = num_dst

    def write(self, nodes: Tensor | None, key_value: Tensor) -> None:
        self.decoder.memory.write(self._ids(nodes), self._step, key_value)

    def attend(self, layer: MultiHeadAttention, rows: Tensor) -> Tensor:
        sources = self._of_frontier(self._sources)
        key_value = self.decoder.memory.read(sources, self._step).flatten(0, 1)
        layout = _intervals_of(len(sources), sources.shape[1]).to(rows.device)
        shift, distance = self.value_shift, None
        if layer.relative is not None:
            distance = self._distances.to(rows.device).repeat(len(sources))
        return layer.attend(layout, rows, key_value, value_shift=shift, edge_distance=distance)[0]

    def cross_attend(self, layer: MultiHeadAttention, rows: Tensor) -> Tensor:
        assert self.decoder.encoded is not None
        key_value = self.decoder.encoded.key_value(layer)
        return layer.attend(self._cross_layout, rows, key_value, frontier=self.frontier)[0]

    def feed_forward(self, transition: Transition, rows: Tensor) -> Tensor:
        if not isinstance(transition, SeparableConvTransition):
            return transition.layers(rows)
        self.decoder.combined.write(self._ids(self.frontier), self._step, rows)
        taps = self._of_frontier(self.paths)[:, -transition.kernel_size :]
        window = self.decoder.combined.read(taps, self._step)
        missing = transition.kernel_size - taps.shape[1]
        return transition.convolve(pad(window, (0, 0, missing, 0)))

    def _ids(self, nodes: Tensor | None) -> Tensor:
        newest = self.paths[:, -1]
        return newest if nodes is None else newest[nodes.cpu()]

    def _of_frontier(self, by_hypothesis: Tensor) -> Tensor:
        return by_hypothesis if self.frontier is None else by_hypothesis[self.frontier.cpu()]


def _intervals_of(rows: int, size: int) -> IntervalLayout:
    """Return a layout where query `i` attends to the `size` sources that start at `i * size`."""
    lo = torch.arange(rows) * size
    one, sizes = torch.ones(rows, dtype=torch.int64), torch.full((rows,), size)
    return IntervalLayout(
        lo=lo, hi=lo + size, num_src=rows * size, dst_lengths=one, src_lengths=sizes
    )


class RaggedCache:
    """A cache with one vector per node and step; after a node's last step, `read` repeats it."""

    def __init__(self, max_steps: int) -> None:
        self._row_of = torch.zeros(0, max_steps, dtype=torch.int64)
        self._rows: Tensor | None = None
        self._used = 0

    def add_nodes(self, count: int) -> Tensor:
        """Add `count` nodes, for which nothing is stored yet; return their ids, `(count,)`."""
        first = self._row_of.shape[0]
        self._row_of = pad(self._row_of, (0, 0, 0, count))
        return torch.arange(first, first + count)

    def write(self, nodes: Tensor, step: int, rows: Tensor) -> None:
        """Store `rows[i]` as the vector of `nodes[i]` at `step` (from 1) and at all later steps."""
        used = self._used + rows.shape[0]
        if self._rows is None:
            self._rows = rows.new_empty(2 * used, rows.shape[1])
        elif used > self._rows.shape[0]:
            self._rows = torch.cat([self._rows, torch.empty_like(self._rows), rows])
        self._rows[self._used : used] = rows
        self._row_of[nodes, step - 1 :] = torch.arange(self._used, used)[:, None]
        self._used = used

    def read(self, nodes: Tensor, step: int) -> Tensor:
        """Return the vectors of `nodes`, `(...)`, at `step`; the result is `(..., width)`."""
        assert self._rows is not None
        rows = self._row_of[:, step - 1][nodes]
        return self._rows[rows.to(self._rows.device)]
