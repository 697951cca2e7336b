"""Attention dropout as a function of seed, edge and head."""

from typing import TypeVar

import torch
from torch import Tensor

_LOW = 0xFFFFFFFF
Bits = TypeVar("Bits", int, Tensor, int | Tensor)


def draw_seed(device: torch.device) -> int | Tensor:
    """Draw a dropout seed from torch's generator: an int, or an int64 tensor on a GPU."""
    seed = torch.randint(2**62, (), device=device if device.type == "cuda" else "cpu")
    return seed if seed.is_cuda else int(seed)


def dropout_factors(
    edge: Tensor, heads: int, dropout: float, seed: int | Tensor, dtype: torch.dtype
) -> Tensor:
    """Return the dropout factors, 0 or `1 / (1 - dropout)`, `(e, heads)`, of edges with ids `(e,)`.

    Each is a hash of seed, edge id and head: nothing is stored for the backward pass, and all
    backends, devices and edge orders have the same mask.
    """
    head = torch.arange(heads, device=edge.device)
    by_edge = mix(mix((edge & _LOW) ^ (edge >> 32)) ^ seed_hash(seed))
    bits = mix(by_edge[:, None] ^ mix(head + 0x9E3779B9))
    return (bits >= drop_below(dropout)).to(dtype) / (1.0 - dropout)


def seed_hash(seed: Bits) -> Bits:
    """Fold a seed into 32 bits for the dropout mask."""
    return mix(seed & _LOW ^ mix(seed >> 32))


def drop_below(dropout: float) -> int:
    """Return the threshold for dropout: a weight is dropped if its 32-bit hash is below it."""
    return int(dropout * 2**32)


def signed_threshold(dropout: float) -> int:
    """Return the signed integer with the bits of `drop_below`, for kernels that take int32."""
    return (drop_below(dropout) ^ 0x80000000) - 0x80000000


def mix(bits: Bits) -> Bits:
    """Apply MurmurHash3's 32-bit finaliser to 32-bit values held in int64."""
    bits = bits & _LOW
    bits = ((bits ^ (bits >> 16)) * 0x85EBCA6B) & _LOW
    bits = ((bits ^ (bits >> 13)) * 0xC2B2AE35) & _LOW
    return bits ^ (bits >> 16)
