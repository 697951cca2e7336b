"""The kernels, and the functions that they share.

In all of them scores and the exponential are to base 2, sums are in float32, and an
argument that is `None` is known to the compiler: code that needs it is left out. Arguments of one
name mean the same everywhere:

- `query`, `key`, `value`: `(rows, heads, width)`, `(sources, heads, width)` and
  `(sources, heads, value_width)`, with `*_stride` entries from one row to the next;
- `out`, `rest`: the output, and what rounding took from it; `softmax`: see `store_softmax`;
- `to_x`: the gradient of `x`; `delta`: `out . to_out` by row and head;
- `nodes`: `(rows,)` destination of each row, or `None` if they are the same; `slot` its inverse;
- `low`, `high`, `shift`: by row, its interval of sources, and the index of the edge from source 0;
- `indptr`, `neighbours`: the same as compressed rows; `ids`: `(edges,)` the graph's ids of edges;
- `first`, `last`, `blocks`: the rows or sources of each block, and how many blocks there are;
- `owner`, `start`: node and first edge of each piece of a long row;
- `bias`: `(edges, bias_heads)`; `seed`, `threshold`, `keep`: of dropout;
- `block_*`: what is done at once, a power of two.

These modules do without `from __future__ import annotations`: the interpreter of Triton 3.0 takes
an argument for a constant by its annotation, and does not recognise one that is a string.
"""
