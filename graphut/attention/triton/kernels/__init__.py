"""The Triton kernels, and the functions that they share.

In all kernels, scores and exponentials have base 2, and sums are in float32. The compiler knows
which arguments are `None`, and omits the code that needs them. Arguments with the same name mean
the same in all kernels:

- `query`, `key`, `value`: `(rows, heads, width)`, `(sources, heads, width)` and
  `(sources, heads, value_width)`, with `*_stride` entries from one row to the next;
- `out`, `rest`: the output, and its rounding error; `softmax`: see `store_softmax`;
- `to_x`: the gradient of `x`; `delta`: `out . to_out` by row and head;
- `nodes`: `(rows,)` destination of each row, or `None` without a frontier; `slot`: its inverse;
- `low`, `high`, `shift`: by row, its interval of sources, and the index of the edge from source 0;
- `indptr`, `neighbours`: the same as compressed rows; `ids`: `(edges,)` edge ids of the graph;
- `first`, `last`, `blocks`: the rows or sources of each block, and the number of blocks;
- `owner`, `start`: node and first edge of each piece of a long row;
- `bias`: `(edges, bias_heads)`; `seed`, `threshold`, `keep`: the parameters of dropout;
- `block_*`: how much is computed at once, a power of two.

These modules do without `from __future__ import annotations`: the interpreter of Triton 3.0
recognises constants by the annotations of arguments, and does not understand strings.
"""
