"""The Universal Transformer from sequences to sequences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from graphut._dgl import DGLGraph
from graphut.attention import as_layout
from graphut.attention.layout import upload
from graphut.attention.ragged import starts
from graphut.models.config import UniversalTransformerConfig
from graphut.models.decoding.decoder import EncodedSource
from graphut.models.decoding.search import SearchOptions
from graphut.models.generative_model import GenerativeModel
from graphut.models.nodes import SentenceNodes, restart_positions
from graphut.models.outputs import Generation, SequenceOutput
from graphut.models.recurrence import make_recurrence
from graphut.nn import Ponder
from graphut.sentences import BOS, EOS, Sentences, flatten, flatten_sources, sentence_graph
from graphut.topology import parse
from graphut.topology.cross import cross_topology


class UniversalTransformer(GenerativeModel):
    """The adaptive Universal Transformer (arXiv 1807.03819) over sentence graphs.

    An encoder repeats one step over the source's graph, a decoder another one over the target's,
    and each node takes steps until it halts. The extra nodes of a topology take steps like tokens
    and count in the ponder cost; cross-attention and the output are of tokens alone.

    Examples
    --------
    >>> config = UniversalTransformerConfig(source_vocab=28, target_vocab=28, d_model=16)
    >>> model = UniversalTransformer(config)
    >>> graph = model.sentence_graph([[5, 3, 4], [2]], [[3, 4, 5], [2]])
    >>> model(graph).logits.shape
    torch.Size([6, 28])
    >>> [answer] = model.generate([[5, 3, 4]], max_length=3)
    >>> len(answer.source_steps)
    3
    """

    config_class = UniversalTransformerConfig
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

    def sentence_graph(self, sources: Sentences, targets: Sentences | None = None) -> DGLGraph:
        """Return `graphut.sentence_graph` by the model's own topologies and `frame_source`.

        Raise `ValueError` if a sentence is longer than `config.max_length`, before edges are made.
        """
        token, lengths = flatten_sources(sources)
        framed = 2 * self.config.frame_source
        self._check_length(int(lengths.max()) + framed, "a source sentence")
        if targets is not None:
            longest = int(flatten(targets, "targets")[1].max())
            self._check_length(longest + 1, "a target sentence")
        if framed:
            sources = [[BOS, *part.tolist(), EOS] for part in token.split(lengths.tolist())]
        return sentence_graph(
            sources,
            targets,
            encoder=self.encoder_topology,
            decoder=self.decoder_topology,
            cross=self.cross_topology,
        )

    def forward(self, graph: DGLGraph, *, get_attention: bool = False) -> SequenceOutput:
        """Predict the token that comes next at every target token.

        The graph is from `sentence_graph`, with targets; its edges say who attends to whom. With
        `get_attention` the output also keeps the attention weights of each step: of the encoder as
        `output.encoder.attention`, of the decoder as `output.decoder.attention`, and between the
        two as `output.decoder.cross_attention`.

        Raises
        ------
        TypeError, ValueError
            If it is no graph, has no target nodes or other extra nodes than the model's topologies,
            a node sees none, a token lies outside the vocabulary, or a sentence is longer than
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
        of_source = self._read(graph, source, drawn)
        of_target = [
            target.checked_layout(as_layout(graph, "decode")),
            target.token,
            target.positions(drawn),
        ]
        sent = upload([*of_source, *of_target, as_layout(graph, "cross")], self.device)
        memory, encoder = self._encode(source, sent[:3], get_attention)
        layout, token, positions, cross = sent[3:]
        out, decoder, *_ = self.decoder(
            layout,
            target.first_states(self._embed(self.target_embedding, token)),
            positions=positions,
            cross=(cross, memory),
            get_attention=get_attention,
        )
        return SequenceOutput(self.output(target.select_tokens(out)), encoder, decoder)

    def _generate(self, sequences: Sentences, options: SearchOptions) -> list[Generation]:
        self._check_length(options.max_length, f"an output of max_length={options.max_length}")
        graph = self.sentence_graph(sequences)
        nodes = self._nodes(graph, "source")
        memory, ponder = self._encode(nodes, upload(self._read(graph, nodes, None), self.device))
        source = EncodedSource(nodes.select_tokens(memory), nodes.lengths, self.cross_topology)
        embed = partial(self._embed, self.target_embedding)
        sentences = torch.arange(len(nodes.lengths))
        decoder = self._token_decoder(self.decoder_topology, embed, sentences, source)
        first = torch.full((len(nodes.lengths),), BOS, device=self.device)
        steps = nodes.select_tokens(ponder.steps).split(nodes.lengths.tolist())
        inner = slice(1, -1) if self.config.frame_source else slice(None)
        return self._search(decoder, first, options, [own.tolist()[inner] for own in steps])

    def _run_again(self, sequence: Sequence[int], answer: Generation) -> Generation:
        # The last token of an answer without an end was not fed back.
        target = answer.tokens if answer.ended else answer.tokens[:-1]
        output = self(self.sentence_graph([sequence], [target]), get_attention=True)
        return replace(answer, encoder=output.encoder, decoder=output.decoder)

    def _read(self, graph: DGLGraph, source: SentenceNodes, drawn: Tensor | None) -> list[Any]:
        """Return the layout, the tokens and the positions of the encoder."""
        layout = source.checked_layout(as_layout(graph, "encode"))
        return [layout, source.token, self._source_positions(source, drawn)]

    def _encode(
        self, source: SentenceNodes, given: Sequence[Any], get_attention: bool = False
    ) -> tuple[Tensor, Ponder]:
        layout, token, positions = given
        out, ponder, *_ = self.encoder(
            layout,
            source.first_states(self._embed(self.source_embedding, token)),
            positions=positions,
            get_attention=get_attention,
        )
        return out, ponder

    def _source_positions(self, source: SentenceNodes, drawn: Tensor | None) -> Tensor:
        """Return positions from the start, or `(num_nodes, 2)` from both ends; `bos` is at 0."""
        framed, separator = int(self.config.frame_source), self.config.restart_after
        if separator:
            first = source.expand(starts(source.lengths)) + framed
            start = restart_positions(source.token, first, separator)
        else:
            start = source.position - framed
        if self.config.source_positions == "start":
            return source.positions(drawn, start)
        end = source.expand(source.lengths + 1 - 2 * framed) - start
        return torch.stack([source.positions(drawn, start), source.positions(drawn, end)], 1)

    def _nodes(self, graph: DGLGraph, side: str) -> SentenceNodes:
        topology = self.encoder_topology if side == "source" else self.decoder_topology
        nodes = SentenceNodes.from_graph(graph, side, topology)
        self._check_length(int(nodes.lengths.max()), f"a {side} sentence")
        embedding = self.source_embedding if side == "source" else self.target_embedding
        self._check_tokens(nodes.token, embedding, f"{side} token")
        if side == "source" and self.config.frame_source:
            first = starts(nodes.lengths)
            framed = nodes.token[first] == BOS, nodes.token[first + nodes.lengths - 1] == EOS
            if not bool(torch.stack(framed).all()):
                raise ValueError(
                    "a source of the graph does not stand between <bos> and <eos>, as with "
                    "frame_source it must: make the graph with the model's own sentence_graph"
                )
        return nodes
