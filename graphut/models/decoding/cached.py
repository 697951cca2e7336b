"""The cached decoder: each token is computed once, over what earlier tokens showed at each step.

With a causal topology a token's whole trajectory depends on earlier tokens alone, so their keys
and values by step are all that is needed. A hypothesis is a path of nodes; hypotheses that share a
beginning share its nodes, and choosing among them copies no keys or values.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad

from graphut.attention import IntervalLayout
from graphut.models.decoding.hypotheses import Hypotheses
from graphut.models.decoding.ragged import RaggedTable
from graphut.models.decoding.source import EncodedSource
from graphut.nn import AdaptiveRecurrence, MultiHeadAttention, coordinate_signal
from graphut.nn.context import EncoderOutput
from graphut.nn.recurrence import adaptive_loop
from graphut.nn.transition import SeparableConvTransition, Transition
from graphut.topology import Topology


class CachedDecoder:
    """Extends hypotheses by one token at a time; see `TokenDecoder`.

    Parameters
    ----------
    recurrence : AdaptiveRecurrence
        The decoder.
    source : EncodedSource or None
        What it reads by cross-attention, where it has any.
    topology : Topology
        Of self-attention: causal and stable.
    embed : callable
        From `(B,)` tokens to `(B, d)` first states.
    predict : callable
        From `(B, d)` output states to logits.
    """

    def __init__(
        self,
        recurrence: AdaptiveRecurrence,
        source: EncodedSource | None,
        topology: Topology,
        embed: Callable[[Tensor], Tensor],
        predict: Callable[[Tensor], Tensor],
    ) -> None:
        self.recurrence = recurrence
        self.source = source
        self.topology = topology
        self.embed = embed
        self.predict = predict
        self.encoded = None if source is None else EncoderOutput(source.feat)
        self.memory = RaggedTable(recurrence.max_steps)
        self.combined = RaggedTable(recurrence.max_steps)
        self.hypotheses = Hypotheses()

    def advance(self, parents: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Extend hypotheses by a token each; see `TokenDecoder`."""
        parents = parents.cpu()
        feat = self.embed(tokens)
        nodes = self.memory.add_nodes(len(parents))
        self.combined.add_nodes(len(parents))
        self.hypotheses.extend(parents, nodes)
        length = self.hypotheses.length
        position = torch.tensor(length, device=feat.device)
        encoding = coordinate_signal(position, feat.shape[1], feat.dtype).expand_as(feat)
        loop = adaptive_loop(self.recurrence)
        out, steps, _ = loop.run(_NewestTokens(self), feat, encoding, len(feat), settle=True)
        return self.predict(out), steps


class _NewestTokens:
    """The context of the newest token of each hypothesis: the cache, as an `AttentionContext`."""

    def __init__(self, decoder: CachedDecoder) -> None:
        self.decoder = decoder
        self.paths = decoder.hypotheses.ids
        self.num_src = self.num_dst = len(self.paths)
        self.frontier: Tensor | None = None
        self.count: Tensor | None = None
        self.value_shift: Tensor | None = None
        self._step = 1
        length = decoder.hypotheses.length
        self._sources = self.paths[:, _in_neighbours(decoder.topology, length)]
        if decoder.source is not None:
            layout = decoder.source.edges_to(decoder.hypotheses.sentences, length - 1)
            self._cross_layout = layout.to(decoder.source.feat.device)

    def begin_step(self, step: int) -> None:
        self._step = step

    def write(self, nodes: Tensor | None, key_value: Tensor) -> None:
        self.decoder.memory.write(self._ids(nodes), self._step, key_value)

    def attend(self, layer: MultiHeadAttention, rows: Tensor) -> Tensor:
        sources = self._of_frontier(self._sources)
        key_value = self.decoder.memory.read(sources, self._step).flatten(0, 1)
        layout = _runs_of(len(sources), sources.shape[1]).to(rows.device)
        return layer.attend(layout, rows, key_value, value_shift=self.value_shift)[0]

    def cross_attend(self, layer: MultiHeadAttention, rows: Tensor) -> Tensor:
        assert self.decoder.encoded is not None
        key_value = self.decoder.encoded.key_value(layer)
        return layer.attend(self._cross_layout, rows, key_value, frontier=self.frontier)[0]

    def transit(self, transition: Transition, rows: Tensor) -> Tensor:
        if not isinstance(transition, SeparableConvTransition):
            return transition.transform(rows)
        self.decoder.combined.write(self._ids(self.frontier), self._step, rows)
        taps = self._of_frontier(self.paths)[:, -transition.kernel_size :]
        window = self.decoder.combined.read(taps, self._step)
        missing = transition.kernel_size - taps.shape[1]
        return transition.convolve(pad(window, (0, 0, missing, 0)))

    def _ids(self, nodes: Tensor | None) -> Tensor:
        own = self.paths[:, -1]
        return own if nodes is None else own[nodes.cpu()]

    def _of_frontier(self, by_hypothesis: Tensor) -> Tensor:
        return by_hypothesis if self.frontier is None else by_hypothesis[self.frontier.cpu()]


def _in_neighbours(topology: Topology, length: int) -> Tensor:
    """Positions that the newest token of so many attends to, `(k,)`."""
    tokens = torch.tensor([length])
    _, source = topology.sorted_in_edges(tokens - 1, tokens, tokens)
    return source


def _runs_of(rows: int, size: int) -> IntervalLayout:
    """Each row attends to a run of its own, all of one size."""
    lo = torch.arange(rows) * size
    one, sizes = torch.ones(rows, dtype=torch.int64), torch.full((rows,), size)
    return IntervalLayout(
        lo=lo, hi=lo + size, num_src=rows * size, dst_lengths=one, src_lengths=sizes
    )
