"""The Universal Transformer for sequence-to-sequence tasks."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from graphut._dgl import DGLGraph
from graphut._tokens import BOS, EOS
from graphut.attention import EdgeLayout, as_layout
from graphut.attention.layout import upload
from graphut.attention.ragged import starts
from graphut.models.config import SearchOptions, UniversalTransformerConfig
from graphut.models.decoders import EncodedSource
from graphut.models.generative_model import GenerativeModel
from graphut.models.layer_builders import make_recurrence
from graphut.models.outputs import Generation, SequenceOutput
from graphut.models.sentence_nodes import SentenceNodes, kept_for_small_batches, restart_positions
from graphut.nn import Ponder
from graphut.sentences import (
    Sentences,
    flatten,
    flatten_targets,
    insert_token,
    sentence_graph,
    shift_targets,
)
from graphut.topology import Topology, parse
from graphut.topology.cross import cross_layout


class UniversalTransformer(GenerativeModel):
    """The adaptive Universal Transformer (arXiv 1807.03819) on sentence graphs.

    An encoder repeats one step over the graph of the source, and a decoder repeats another step
    over the graph of the target, until each node halts. The extra nodes of a topology take steps
    like tokens and count in the ponder cost; only tokens take part in cross-attention and output.

    Examples
    --------
    >>> config = UniversalTransformerConfig(source_vocab=28, target_vocab=28, d_model=16)
    >>> model = UniversalTransformer(config)
    >>> sources, targets = [[5, 3, 4], [2]], [[3, 4, 5], [2]]
    >>> model(sources, targets).logits.shape
    torch.Size([6, 28])
    >>> model(model.sentence_graph(sources, targets)).logits.shape  # the same, as a DGL graph
    torch.Size([6, 28])
    >>> [answer] = model.generate([[5, 3, 4]], max_length=3)
    >>> len(answer.source_steps)
    3
    """

    config_class = UniversalTransformerConfig
    reads, writes = "source", "target"
    config: UniversalTransformerConfig

    def __init__(self, config: UniversalTransformerConfig) -> None:
        super().__init__(config)
        self.encoder_topology = parse(config.encoder_topology)
        self.decoder_topology = parse(config.decoder_topology)
        self.cross_topology = parse(config.cross_topology)
        self.target_embedding = nn.Embedding(config.target_vocab, config.d_model)
        self.source_embedding = (
            self.target_embedding
            if config.share_embeddings
            else nn.Embedding(config.source_vocab, config.d_model)
        )
        self.segment_embedding = (
            nn.Embedding(2, config.d_model) if config.segment_embedding else None
        )
        self.encoder = make_recurrence(config)
        self.decoder = make_recurrence(
            config,
            causal=True,
            cross_attention=True,
            extra_nodes=self.decoder_topology.has_extra_nodes,
        )
        self.output = nn.Linear(config.d_model, config.target_vocab)
        self.output.weight = self.target_embedding.weight  # tied
        self.reset_parameters()

    def sentence_graph(self, sources: Sentences, targets: Sentences | None = None) -> DGLGraph:
        """Return a DGL graph of sentences, with the topologies of the model.

        See `graphut.sentence_graph`. With `config.add_bos_eos`, sources get `<bos>` and `<eos>`.
        Raise `ValueError` if a sentence is longer than `config.max_length`.
        """
        token, lengths = self._flatten_sources(sources)
        if targets is not None:
            self._flatten_targets(targets, len(lengths))
        return sentence_graph(
            token.split(lengths.tolist()),
            targets,
            encoder=self.encoder_topology,
            decoder=self.decoder_topology,
            cross=self.cross_topology,
        )

    def forward(
        self,
        graph: DGLGraph | Sentences,
        targets: Sentences | None = None,
        *,
        get_attention: bool = False,
    ) -> SequenceOutput:
        """Compute the logits of the next token at every target token.

        Parameters
        ----------
        graph : DGLGraph or sequence of sequences of int
            A graph from `sentence_graph`, with targets; attention runs along its edges. Or the
            sources, as lists of tokens, which do not need DGL.
        targets : sequence of sequences of int, optional
            The targets, without `<bos>` and `<eos>`, if `graph` is a list of sources.
        get_attention : bool
            Also return the attention weights of each step, as `output.encoder.attention`,
            `output.decoder.attention` and `output.decoder.cross_attention`.

        Raises
        ------
        TypeError, ValueError
            If there are no targets, or they are given with a graph, the graph does not fit the
            model's topologies, a token lies outside the vocabulary, or a sentence is longer than
            `config.max_length`.
        """
        if isinstance(graph, DGLGraph):
            if targets is not None:
                raise TypeError(
                    "the graph contains the targets: pass sources and targets, or the graph alone"
                )
            source, target, cross = self._read_graph(graph)
        elif targets is None:
            raise TypeError(
                "the model takes a graph from its sentence_graph(sources, targets), or sources and "
                f"targets; got a {type(graph).__name__} alone"
            )
        else:
            source = self._read_sources(graph)
            target, cross = self._read_targets(targets, source.lengths)
        drawn = self._drawn_positions(torch.maximum(source.lengths, target.lengths))
        inputs = [source.layout, source.token, *self._source_positions(source, drawn)]
        positions = target.position if drawn is None else target.redrawn(target.position, drawn)
        inputs += [target.layout, target.token, positions, cross]
        *encoder_inputs, layout, token, positions, cross = upload(inputs, self.device)
        memory, encoder = self._encode(source, *encoder_inputs, get_attention=get_attention)
        out, decoder, *_ = self.decoder(
            layout,
            target.first_states(self._embed(self.target_embedding, token)),
            positions=positions,
            cross=(cross, memory),
            get_attention=get_attention,
        )
        return SequenceOutput(self.output(target.select_tokens(out)), encoder, decoder)

    def _generate(self, sequences: Sentences, options: SearchOptions) -> list[Generation]:
        self._check_length(
            options.max_length, f"an output of generate(max_length={options.max_length})"
        )
        nodes = self._read_sources(sequences)
        inputs = [nodes.layout, nodes.token, *self._source_positions(nodes, None)]
        memory, ponder = self._encode(nodes, *upload(inputs, self.device))
        source = EncodedSource(nodes.select_tokens(memory), nodes.lengths, self.cross_topology)
        embed = partial(self._embed, self.target_embedding)
        sentences = torch.arange(len(nodes.lengths))
        decoder = self._token_decoder(self.decoder_topology, embed, sentences, source)
        first = torch.full((len(nodes.lengths),), BOS, device=self.device)
        steps = nodes.select_tokens(ponder.steps).split(nodes.lengths.tolist())
        inner = slice(1, -1) if self.config.add_bos_eos else slice(None)
        return self._search(decoder, first, options, [part.tolist()[inner] for part in steps])

    def _run_again(self, sequence: Sequence[int], answer: Generation) -> Generation:
        # If <eos> was not generated, the last token was never an input of the decoder.
        target = answer.tokens if answer.ended else answer.tokens[:-1]
        output = self([sequence], [target], get_attention=True)
        return replace(answer, encoder=output.encoder, decoder=output.decoder)

    def _encode(
        self,
        source: SentenceNodes,
        layout: EdgeLayout,
        token: Tensor,
        positions: Tensor,
        segment: Tensor | None = None,
        *,
        get_attention: bool = False,
    ) -> tuple[Tensor, Ponder]:
        feat = self._look_up(self.source_embedding, token)
        if self.segment_embedding is not None and segment is not None:
            feat = feat + self._look_up(self.segment_embedding, segment)
        feat = source.first_states(self.dropout(feat))
        out, ponder, *_ = self.encoder(
            layout, feat, positions=positions, get_attention=get_attention
        )
        return out, ponder

    def _source_positions(self, source: SentenceNodes, drawn: Tensor | None) -> list[Tensor]:
        """Return the positions of nodes and, for a model with segment embeddings, their segments.

        Positions are from the start, `(num_nodes,)`, or from both ends, `(num_nodes, 2)`. The
        segment is 1 where positions have restarted, else 0.
        """
        first, separator = int(self.config.add_bos_eos), self.config.restart_after
        plain = start = source.position - first
        if separator:
            index = source.expand(starts(source.lengths)) + first
            start = restart_positions(source.token, index, separator)
        sides = [start]
        if self.config.source_positions == "both":
            sides.append(source.expand(source.lengths + 1 - 2 * first) - start)
        if drawn is not None:
            sides = [source.redrawn(side, drawn) for side in sides]
        positions = sides[0] if len(sides) == 1 else torch.stack(sides, 1)
        segment = [] if self.segment_embedding is None else [(start != plain).long()]
        return [positions, *segment]

    def _read_graph(self, graph: DGLGraph) -> tuple[SentenceNodes, SentenceNodes, EdgeLayout]:
        """Return the source nodes, the target nodes and the edges between them of a graph."""
        if "target" not in graph.ntypes:
            raise ValueError("the graph has no target nodes: give sentence_graph the targets")
        source = SentenceNodes.from_graph(graph, "source", self.encoder_topology)
        target = SentenceNodes.from_graph(graph, "target", self.decoder_topology)
        for nodes, side in ((source, "source"), (target, "target")):
            self._check_length(int(nodes.lengths.max()), f"a {side} sentence")
        self._check_tokens(source.token, self.source_embedding.num_embeddings, "source token")
        self._check_tokens(target.token, self.target_embedding.num_embeddings, "target token")
        if self.config.add_bos_eos:
            first = starts(source.lengths)
            ends = source.token[first] == BOS, source.token[first + source.lengths - 1] == EOS
            if not bool(torch.stack(ends).all()):
                raise ValueError(
                    "a source in the graph does not begin with <bos> and end with <eos>, as "
                    "add_bos_eos requires: make the graph with the model's own sentence_graph"
                )
        return source, target, as_layout(graph, "cross")

    def _read_sources(self, sources: Sentences) -> SentenceNodes:
        return SentenceNodes.from_tokens(*self._flatten_sources(sources), self.encoder_topology)

    def _read_targets(
        self, targets: Sentences, src_lengths: Tensor
    ) -> tuple[SentenceNodes, EdgeLayout]:
        """Return the target nodes, and the edges from source nodes to target nodes."""
        token, _, lengths = shift_targets(*self._flatten_targets(targets, len(src_lengths)))
        topologies = self.cross_topology, self.decoder_topology, self.encoder_topology
        cross = kept_for_small_batches(_cross_edges, topologies, lengths, src_lengths)
        return SentenceNodes.from_tokens(token, lengths, self.decoder_topology, causal=True), cross

    def _flatten_sources(self, sources: Sentences) -> tuple[Tensor, Tensor]:
        """Return all source tokens, with `<bos>` and `<eos>` if configured, and their lengths."""
        token, lengths = flatten(sources, "sources", allow_empty=False)
        self._check_tokens(token, self.source_embedding.num_embeddings, "source token")
        if self.config.add_bos_eos:
            token, lengths = insert_token(token, starts(lengths + 1), BOS), lengths + 2
            token = insert_token(token, lengths.cumsum(0) - 1, EOS)
        ends = ", with its <bos> and <eos>," * self.config.add_bos_eos
        self._check_length(int(lengths.max()), f"a source sentence{ends}")
        return token, lengths

    def _flatten_targets(self, targets: Sentences, sources: int) -> tuple[Tensor, Tensor]:
        """Return all target tokens and the lengths, without `<bos>` and `<eos>`."""
        token, lengths = flatten_targets(targets, sources)
        self._check_tokens(token, self.target_embedding.num_embeddings, "target token")
        self._check_length(int(lengths.max()) + 1, "a target sentence, with its <eos>,")
        return token, lengths


def _cross_edges(
    topologies: tuple[Topology, Topology, Topology], lengths: Tensor, src_lengths: Tensor
) -> EdgeLayout:
    cross, decoder, encoder = topologies
    return cross_layout(cross, lengths, src_lengths, decoder=decoder, encoder=encoder)
