"""Token sequences: check and flatten them, and shift targets by one token."""

from collections.abc import Sequence
from itertools import chain
from numbers import Integral

import torch
from torch import Tensor

from graphut._tokens import BOS, EOS
from graphut.attention import EdgeLayout
from graphut.attention.ragged import starts
from graphut.topology import Topology
from graphut.topology.batch import sees_future

Sentences = Sequence[Sequence[int] | Tensor]


def target_labels(targets: Sentences) -> Tensor:
    """Return the token to predict at each target token, `(num_tokens,)` int64.

    Examples
    --------
    >>> target_labels([[3, 5], [4]])
    tensor([3, 5, 1, 4, 1])
    """
    return shift_targets(*flatten(targets, "targets"))[1]


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
                f"{name}[{index}] is {tokens!r}: a sentence is a list of integers or a 1-D tensor"
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
