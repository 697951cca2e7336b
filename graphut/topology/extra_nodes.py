"""First states and positions of extra nodes (nodes that are not tokens)."""

from graphut._torch import Tensor, torch
from graphut.attention.ragged import earlier_equals, positions, ragged_arange, row_sums, starts
from graphut.topology.base import Topology
from graphut.topology.batch import Lengths, as_lengths
from graphut.topology.parse import parse


def token_nodes(topology: Topology | str, lengths: Lengths) -> Tensor:
    """Return the node id of each token in `topology.layout(lengths)`, `(num_tokens,)` int64.

    Only these nodes are part of the output of a model.

    Examples
    --------
    >>> token_nodes("star", [2, 3])
    tensor([0, 1, 3, 4, 5])
    """
    lengths = as_lengths(lengths)
    before = starts(parse(topology).extra_nodes(lengths))
    return torch.arange(int(lengths.sum())) + torch.repeat_interleave(before, lengths)


def with_extra_nodes(topology: Topology | str, feat: Tensor, lengths: Lengths) -> Tensor:
    """Insert the features of extra nodes (nodes that are not tokens) into those of tokens.

    `feat` is `(num_tokens, ...)`, and the result is `(num_nodes, ...)`. The features of an extra
    node are the mean over its tokens in `topology.extra_starts`, or zero if it has none there.

    Examples
    --------
    >>> with_extra_nodes("star", torch.tensor([[1.0], [3.0], [5.0]]), [2, 1]).flatten()
    tensor([1., 3., 2., 5., 5.])
    """
    topology, lengths = parse(topology), as_lengths(lengths)
    if len(feat) != int(lengths.sum()):
        raise ValueError(
            f"feat has {len(feat)} rows, but the sentences have {int(lengths.sum())} tokens"
        )
    if not topology.has_extra_nodes:
        return feat
    sentence, lo, hi = _starts_of_extra_nodes(topology, lengths)
    row, position = ragged_arange(hi - lo)
    token = ((lo + starts(lengths)[sentence])[row] + position).to(feat.device)
    size = (hi - lo).clamp(min=1).to(feat.device).view(-1, *[1] * (feat.dim() - 1))
    # In float16 a sum can overflow although the mean does not.
    wide = feat.to(torch.promote_types(feat.dtype, torch.float32))
    extra = row_sums(wide[token], row.to(feat.device), len(sentence)) / size
    # Sort by sentence; the stable sort keeps the tokens of a sentence before its extra nodes.
    order = torch.cat([torch.repeat_interleave(lengths), sentence]).argsort(stable=True)
    return torch.cat([feat, extra.to(feat.dtype)])[order.to(feat.device)]


def node_positions(topology: Topology | str, lengths: Lengths) -> Tensor:
    """Return the position of each node of a layout, `(num_nodes,)`, for its position encoding.

    Tokens have the positions 1, 2, ... An extra node has the mean position of its tokens in
    `topology.extra_starts`, or 0 without tokens. If several extra nodes have the same tokens, each
    one after the first is shifted by a further -1, so that their states can differ. Positions are
    int64, or float64 if there are extra nodes.

    Examples
    --------
    >>> node_positions("virtual:2", [2])
    tensor([ 1.,  2.,  0., -1.], dtype=torch.float64)
    """
    topology, lengths = parse(topology), as_lengths(lengths)
    position = positions(lengths) + 1
    if not topology.has_extra_nodes:
        return position
    position = with_extra_nodes(topology, position.double(), lengths)
    is_extra = torch.ones_like(position, dtype=torch.bool)
    is_extra[token_nodes(topology, lengths)] = False
    sentence, lo, hi = _starts_of_extra_nodes(topology, lengths)
    start = torch.stack([sentence, torch.where(hi > lo, lo, 0), torch.where(hi > lo, hi, 0)], 1)
    position[is_extra] -= earlier_equals(start.unique(dim=0, return_inverse=True)[1])
    return position


def _starts_of_extra_nodes(topology: Topology, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return `(sentence, lo, hi)` of each extra node; it starts as the mean of tokens `lo:hi`."""
    extras = topology.extra_nodes(lengths)
    sentence = torch.repeat_interleave(extras)
    return sentence, *topology.extra_starts(positions(extras), lengths[sentence])
