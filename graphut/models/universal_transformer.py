"""The Universal Transformer, from sequences to sequences."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from graphut._dgl import DGLGraph
from graphut.attention import as_layout
from graphut.models.config import UniversalTransformerConfig
from graphut.models.decoding import EncodedSource, Generation, check_search, search
from graphut.models.nodes import SentenceNodes
from graphut.models.output import SequenceOutput
from graphut.models.recurrence import make_recurrence
from graphut.models.writing import WritingModel, generation
from graphut.nn import Ponder
from graphut.sentences import BOS, CROSS, DECODE, ENCODE, EOS, flatten_sources, sentence_graph
from graphut.topology import parse
from graphut.topology.cross import cross_topology


class UniversalTransformer(WritingModel):
    """The adaptive Universal Transformer (arXiv 1807.03819) over sentence graphs.

    An encoder repeats one step over the source's graph, a decoder another one over the target's,
    each node for as long as it ponders. The extra nodes of a topology take steps like tokens, and
    count in the ponder cost; cross-attention is between tokens, and only tokens are read out.

    Parameters
    ----------
    config : UniversalTransformerConfig
        Its shape.

    Examples
    --------
    >>> config = UniversalTransformerConfig(source_vocab=28, target_vocab=28, d_model=16)
    >>> model = UniversalTransformer(config)
    >>> graph = model.sentence_graph([[5, 3, 4], [2]], [[3, 4, 5], [2]])
    >>> model(graph).logits.shape
    torch.Size([6, 28])
    """

    config_kind = UniversalTransformerConfig
    config: UniversalTransformerConfig

    def __init__(self, config: UniversalTransformerConfig) -> None:
        super().__init__(config)
        self.encoder_topology = parse(config.encoder_topology)
        self.decoder_topology = parse(config.decoder_topology)
        self.cross_topology = cross_topology(config.cross_topology)
        self.target_embedding = nn.Embedding(config.target_vocab, config.d_model)
        self.source_embedding = (
            self.target_embedding
            if config.share_embeddings
            else nn.Embedding(config.source_vocab, config.d_model)
        )
        self.encoder = make_recurrence(config)
        self.decoder = make_recurrence(
            config,
            causal=True,
            cross_attention=True,
            extra_nodes=self.decoder_topology.has_extra_nodes,
        )
        self.output = nn.Linear(config.d_model, config.target_vocab)
        if config.tie_output:
            self.output.weight = self.target_embedding.weight
        self.reset_parameters()

    def sentence_graph(
        self,
        sources: Sequence[Sequence[int] | Tensor],
        targets: Sequence[Sequence[int] | Tensor] | None = None,
    ) -> DGLGraph:
        """`graphut.sentence_graph` with the model's own topologies, and `frame_source`."""
        if self.config.frame_source:
            token, lengths = flatten_sources(sources)
            parts = token.split(lengths.tolist())
            sources = [[BOS, *part.tolist(), EOS] for part in parts]
        return sentence_graph(
            sources,
            targets,
            encoder=self.encoder_topology,
            decoder=self.decoder_topology,
            cross=self.cross_topology,
            bos=BOS,
            eos=EOS,
        )

    def forward(self, graph: DGLGraph) -> SequenceOutput:
        """Predict the token that comes next at every target token.

        Parameters
        ----------
        graph : DGLGraph
            From `sentence_graph`, with targets. Who attends to whom is as it says.

        Returns
        -------
        SequenceOutput
            Logits, and the ponder records of encoder and decoder.

        Raises
        ------
        ValueError
            If the graph has no target nodes or other extra nodes than the model's topologies, a
            node sees none, a token lies outside the vocabulary, or a sentence is longer than
            `config.max_length`.
        """
        if not isinstance(graph, DGLGraph):
            raise TypeError(
                "the model takes a graph, from its sentence_graph(sources, targets); got a "
                f"{type(graph).__name__}"
            )
        if "target" not in graph.ntypes:
            raise ValueError("the graph has no target nodes: give sentence_graph the targets")
        source = self._nodes(graph, "source")
        target = self._nodes(graph, "target")
        drawn = self._drawn_positions(torch.maximum(source.lengths, target.lengths))
        memory, encoder = self._encode(graph, source, drawn)
        out, decoder = self.decoder(
            target.seeing(as_layout(graph, DECODE)),
            target.first_states(self._embed_target),
            positions=target.positions(drawn),
            cross=(as_layout(graph, CROSS).to(self.device), memory),
        )
        return SequenceOutput(self.output(target.tokens_of(out)), encoder, decoder)

    @torch.no_grad()
    def generate(
        self,
        sequences: Sequence[Sequence[int] | Tensor],
        *,
        max_length: int = 100,
        beam_size: int = 1,
        length_penalty: float = 0.6,
        temperature: float | None = None,
        top_p: float | None = None,
        generator: torch.Generator | None = None,
    ) -> list[Generation]:
        """Answer source sequences: greedily, by beam search, or by sampling.

        Every token is computed once, over a cache as deep as each earlier token pondered. What a
        sequence gets does not depend on the others in the batch, but for the luck of samples.

        Parameters
        ----------
        sequences : sequence of sequences of int
            Source tokens.
        max_length : int
            Generated tokens at most, `eos` included.
        beam_size : int
            Hypotheses kept for each sequence; 1 is greedy.
        length_penalty : float
            Of beam search: 0 ranks by log-probability, more favours longer sequences.
        temperature : float, optional
            Samples in place of taking the likeliest token; below 1 sharpens.
        top_p : float, optional
            Samples among the likeliest tokens that have this probability between them.
        generator : torch.Generator, optional
            Of the samples, on the CPU; torch's own if not given.

        Returns
        -------
        list of Generation
            One for each source, in order.

        Raises
        ------
        ValueError
            If an option is out of range, the sequences do not fit the model, or a weight is not
            a finite number.

        Examples
        --------
        >>> config = UniversalTransformerConfig(source_vocab=28, target_vocab=28, d_model=16)
        >>> [answer] = UniversalTransformer(config).generate([[5, 3, 4]], max_length=3)
        >>> len(answer.source_steps)
        3
        """
        check_search(max_length, beam_size, length_penalty, temperature, top_p)
        self._check_length(max_length, f"an output of max_length={max_length}")
        kind = self._decoder_kind(self.decoder_topology, self.cross_topology)
        with self.evaluating():
            graph = self.sentence_graph(sequences)
            nodes = self._nodes(graph, "source")
            memory, ponder = self._encode(graph, nodes, None)
            lengths = nodes.lengths
            source = EncodedSource(nodes.tokens_of(memory), lengths, self.cross_topology)
            found = search(
                kind(
                    self.decoder, source, self.decoder_topology, self._embed_target, self._predict
                ),
                len(lengths),
                max_length=max_length,
                beam_size=beam_size,
                length_penalty=length_penalty,
                temperature=temperature,
                top_p=top_p,
                generator=generator,
                bos=BOS,
                eos=EOS,
                never=BOS,
                device=self.device,
            )
        by_token = nodes.tokens_of(ponder.steps).split(lengths.tolist())
        inner = slice(1, -1) if self.config.frame_source else slice(None)
        steps = [part.tolist()[inner] for part in by_token]
        return [generation(hypothesis, own) for hypothesis, own in zip(found, steps, strict=True)]

    def _encode(
        self, graph: DGLGraph, source: SentenceNodes, drawn: Tensor | None
    ) -> tuple[Tensor, Ponder]:
        out: tuple[Tensor, Ponder] = self.encoder(
            source.seeing(as_layout(graph, ENCODE)),
            source.first_states(self._embed_source),
            positions=self._source_positions(source, drawn),
        )
        return out

    def _source_positions(self, source: SentenceNodes, drawn: Tensor | None) -> Tensor:
        """As configured, from both ends `(num_nodes, 2)`; `bos` and `eos` stand at the edge."""
        framed, separator = int(self.config.frame_source), self.config.restart_after
        start = source.since(separator, framed) if separator else source.position - framed
        end = source.of_nodes(source.lengths + 1 - 2 * framed) - start
        both = (start,) if self.config.source_positions == "start" else (start, end)
        placed = [p if drawn is None else source.place(p, drawn) for p in both]
        return placed[0] if len(placed) == 1 else torch.stack(placed, 1)

    def _nodes(self, graph: DGLGraph, side: str) -> SentenceNodes:
        topology = self.encoder_topology if side == "source" else self.decoder_topology
        nodes = SentenceNodes.read(graph, side, topology, self.device)
        self._check_length(int(nodes.lengths.max()), f"a {side} sentence")
        return nodes

    def _embed_source(self, token: Tensor) -> Tensor:
        return self._embed(self.source_embedding, token, "source token")

    def _embed_target(self, token: Tensor) -> Tensor:
        return self._embed(self.target_embedding, token, "target token")
