"""Token sequences: check and flatten them, and turn pairs of them into a batched DGL graph."""

from collections.abc import Sequence
from itertools import chain
from numbers import Integral

import torch
from torch import Tensor

from graphut._dgl import DGLGraph
from graphut._tokens import BOS, EOS
from graphut.attention import EdgeLayout
from graphut.attention.ragged import starts
from graphut.topology import Causal, Complete, Topology, node_positions, parse, token_nodes
from graphut.topology.batch import graph_from_layouts, sees_future
from graphut.topology.cross import cross_layout

ENCODE = ("source", "encode", "source")
DECODE = ("target", "decode", "target")
CROSS = ("source", "cross", "target")

NO_TOKEN = -1  # the token and the label of an extra node

Sentences = Sequence[Sequence[int] | Tensor]


def sentence_graph(
    sources: Sentences,
    targets: Sentences | None = None,
    *,
    encoder: Topology | str = Complete(),
    decoder: Topology | str = Causal(),
    cross: Topology | str = Complete(),
) -> DGLGraph:
    """Return one batched graph of source sentences and, optionally, their targets.

    A target of `m` tokens has `m + 1` nodes. The token of a node is the token before it (`BOS` at
    the first node), and its label is the token to predict (`EOS` at the last node).

    Parameters
    ----------
    sources : sequence of sequences of int
        Tokens of each source sentence, at least one: lists, 1-D integer tensors or arrays.
    targets : sequence of sequences of int, optional
        One target for each source, without `BOS` and `EOS`; it may be empty. Without targets the
        graph has only the node type `source` and the edge type `encode`.
    encoder, decoder, cross : Topology or str
        Topologies among the tokens of a source, among the tokens of a target (causal), and from
        sources to targets.

    Returns
    -------
    DGLGraph
        Node types `source` and `target`; edge types `(source, encode, source)`,
        `(target, decode, target)` and `(source, cross, target)`. Node data: `token` and, for
        targets, `label`, int64, -1 at extra nodes; and `position`, from
        `graphut.topology.node_positions`.

    Raises
    ------
    TypeError, ValueError
        If a token is not a non-negative integer, a source is empty, the numbers of sources and
        targets differ, the decoder's topology is not causal, or a target token has no in-edge from
        its source.

    Examples
    --------
    >>> graph = sentence_graph([[5, 3, 4], [2]], [[3, 4, 5], [2]])
    >>> graph.batch_num_nodes("target")
    tensor([4, 2])
    >>> graph.nodes["target"].data["token"]
    tensor([0, 3, 4, 5, 0, 2])
    >>> graph.nodes["target"].data["label"]
    tensor([3, 4, 5, 1, 2, 1])
    """
    token, lengths = flatten(sources, "sources", allow_empty=False)
    encoder, decoder = parse(encoder), parse(decoder)
    layouts = {ENCODE: encoder.layout(lengths)}
    data = {"source": _node_data(encoder, lengths, token=token)}
    if targets is not None:
        target, target_lengths = flatten_targets(targets, len(lengths))
        fed, label, target_lengths = shift_targets(target, target_lengths)
        layouts[DECODE] = causal_layout(decoder, target_lengths)
        layouts[CROSS] = cross_layout(
            cross, target_lengths, lengths, decoder=decoder, encoder=encoder
        )
        data["target"] = _node_data(decoder, target_lengths, token=fed, label=label)
    graph = graph_from_layouts(layouts)
    for ntype, columns in data.items():
        graph.nodes[ntype].data.update(columns)
    return graph


def target_labels(targets: DGLGraph | Sentences) -> Tensor:
    """Return the token to predict at each target token, `(num_tokens,)` int64.

    `targets` is a graph from `sentence_graph`, or the targets themselves.

    Examples
    --------
    >>> target_labels([[3, 5], [4]])
    tensor([3, 5, 1, 4, 1])
    """
    if not isinstance(targets, DGLGraph):
        return shift_targets(*flatten(targets, "targets"))[1]
    label: Tensor = targets.nodes["target"].data["label"]
    return label[label != NO_TOKEN]


def causal_layout(decoder: Topology, lengths: Tensor) -> EdgeLayout:
    """Return the layout of a decoder's topology; raise `ValueError` if it is not causal."""
    layout = decoder.layout(lengths)
    # `is_causal` tests a few lengths; `sees_future` tests the lengths of this batch.
    if not decoder.is_causal() or sees_future(layout, lengths, decoder.extra_starts):
        raise ValueError(
            f"the decoder's topology {str(decoder)!r} is not causal, since tokens attend to later "
            f"ones: use '({decoder})&causal'"
        )
    return layout


def _node_data(topology: Topology, lengths: Tensor, **columns: Tensor) -> dict[str, Tensor]:
    """Return a dictionary of node data: `position`, and `columns` with -1 added at extra nodes."""
    position = node_positions(topology, lengths)
    nodes = token_nodes(topology, lengths)
    data = {"position": position}
    for name, column in columns.items():
        data[name] = column.new_full((len(position),), NO_TOKEN)
        data[name][nodes] = column
    return data


def shift_targets(tokens: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return inputs (`BOS` before each sentence), labels (`EOS` after each), and their lengths."""
    longer = lengths + 1
    first = starts(longer)
    return insert_token(tokens, first, BOS), insert_token(tokens, first + lengths, EOS), longer


def insert_token(tokens: Tensor, positions: Tensor, token: int) -> Tensor:
    """Return `tokens` with `token` inserted; `positions` are its indices in the result."""
    result = tokens.new_full((tokens.numel() + positions.numel(),), token)
    others = torch.ones_like(result, dtype=torch.bool)
    others[positions] = False
    result[others] = tokens
    return result


def flatten_targets(targets: Sentences, sources: int) -> tuple[Tensor, Tensor]:
    """Flatten targets, like `flatten`; raise `ValueError` unless their number is `sources`."""
    token, lengths = flatten(targets, "targets")
    if len(lengths) != sources:
        raise ValueError(f"{sources} sources but {len(lengths)} targets")
    return token, lengths


def flatten(sentences: Sentences, name: str, *, allow_empty: bool = True) -> tuple[Tensor, Tensor]:
    """Return all tokens in one int64 tensor, and the length of each sentence.

    Raise `TypeError` or `ValueError` if a token is not a non-negative integer, or a sentence is
    empty without `allow_empty`.
    """
    if not hasattr(sentences, "__len__"):
        raise TypeError(f"{name} must be a list of sentences, got {sentences!r}")
    lists = [s.tolist() if hasattr(s, "tolist") else s for s in sentences]
    if not lists:
        raise ValueError(f"{name} is empty: a batch needs at least one sentence")
    for index, tokens in enumerate(lists):
        # Sets have no order, and bytes are text.
        if not isinstance(tokens, Sequence) or isinstance(tokens, (str, bytes, bytearray)):
            raise TypeError(
                f"{name}[{index}] is {tokens!r}: a sentence is a list of integers, as in "
                "[[5, 6, 7]], or a 1-D tensor"
            )
        if not tokens and not allow_empty:
            raise ValueError(f"{name}[{index}] is empty: it needs at least one token")
        for token in tokens:
            if type(token) is not int and (
                isinstance(token, bool) or not isinstance(token, Integral)
            ):
                raise TypeError(f"{name}[{index}] contains {token!r}: tokens must be integers")
            if not 0 <= int(token) < 2**63:
                raise ValueError(
                    f"{name}[{index}] contains {token}: a token is an integer from 0 to 2^63 - 1"
                )
    lengths = torch.tensor([len(tokens) for tokens in lists])
    return torch.tensor([*map(int, chain.from_iterable(lists))], dtype=torch.int64), lengths
