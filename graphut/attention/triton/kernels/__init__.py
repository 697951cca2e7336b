"""The Triton kernels, and the functions that they share.

Exponentials have base 2, scores are scaled accordingly, and sums are in float32. The compiler omits
code for arguments that are `None`. Most arguments are named tuples of `graphut.attention.triton`:

- `call`: `KernelCall`; `edges`: `CSREdges` or `IntervalTables`; `sizes`: `TileSizes`;
- `out`: `Heads` by row; `softmax`: see `load_softmax`;
- `to_x`: the gradient of `x`; `delta`: `out . to_out` by row and head;
- `step`, `next_number`: see `table_row` and `goes_on`.

These modules do without `from __future__ import annotations`: the interpreter of Triton recognises
constants by the annotations of arguments, and may not understand strings. As usual in Triton, other
arguments have no annotations.
"""
