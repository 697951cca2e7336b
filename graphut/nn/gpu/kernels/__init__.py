"""The Triton kernels of a recurrence on a GPU, apart from attention.

Grids and shapes do not depend on values: a program reads the number of rows on the device, and ends
at once if it has none. Most arguments are the named tuples below: `shared`, `now` (of the step) and
`last` (of the last one), `norm`, and operands of products. `to_x` is the gradient of `x`, and
`parts` are sums of programs, which torch adds up at the end.

Sums and normalisations are in float32.
"""

from typing import NamedTuple

import triton.language as tl
from torch import Tensor

from graphut.attention.triton.launches import Dropout, constant

NOTHING = constant("")


class Shared(NamedTuple):
    """Tensors and constants that all steps share; those by node or by source have the full size."""

    size: int  # number of nodes, a multiple of 16
    sizes: Tensor  # (2,) number of sources and of destinations
    states: Tensor  # (sources, width)
    encodings: Tensor | None  # (sources, width), added to the states
    unit: Tensor | None  # (width + 1,) weight and bias of the halting unit
    schedule: Tensor | None  # (destinations,) the step at which a node halts, without a unit
    going: Tensor  # (steps + 1, groups) number of active nodes of each `group` nodes
    halted: Tensor  # (sources,) the step at which a node halts, or the last step so far as known
    settled: Tensor  # (sources,) the last step that stores a source
    spent: Tensor  # (sources,) sum of the probabilities of each node
    remainder: Tensor  # (sources,)
    out: Tensor  # (sources, width)
    errors: Tensor  # (programs,) the first wrong node; FAR without one
    stores_all: tl.constexpr  # as the following ones, see `Settings`
    norm: tl.constexpr
    low: tl.constexpr
    threshold: tl.constexpr
    width: tl.constexpr
    group: tl.constexpr
    block_m: tl.constexpr  # rows of a tile
    block_w: tl.constexpr  # their columns, a power of two
    # In the backward pass:
    to_out: Tensor | None  # (destinations, width)
    to_remainder: Tensor | None  # (destinations,)
    to_states: Tensor | None  # (sources, width), from later steps
    to_spent: Tensor | None  # (sources,)
    to_encodings: Tensor | None  # (sources, width), to which each step adds
    to_unit: Tensor | None  # (programs, width + 1) sums of programs


class Step(NamedTuple):
    """The tensors of a step. Rows are those of active nodes, in order, then of stored nodes."""

    nodes: Tensor  # (rows,) the node of each row
    before: Tensor  # (size + 1,) number of active nodes before each node
    active: Tensor  # number of active nodes
    number: Tensor  # number of rows; 0 if no node is active
    rows: Tensor  # (rows, width) the input of the step
    sums: Tensor  # (rows, width) the states, before the LayerNorm if there is one
    share: Tensor  # (rows,) the weight of the state in the output
    to_sums: Tensor | None  # (rows, width)
    to_logit: Tensor | None  # (rows,) with a unit


class Norm(NamedTuple):
    """A LayerNorm."""

    stats: Tensor  # (rows, 2) mean and inverse standard deviation of each row
    scale: Tensor
    shift: Tensor
    eps: float


class Operand(NamedTuple):
    """Rows of an operand or result of a product, and what is applied to an operand."""

    data: Tensor | None  # (rows, split); None if there is no such operand
    split: tl.constexpr | None
    width: tl.constexpr | None
    activation: tl.constexpr = NOTHING
    by_node: Tensor | None = None  # (nodes, width - split) the other columns
    norm: Norm | None = None
    drop: Dropout | None = None


NO_OPERAND = Operand(None, None, None)
