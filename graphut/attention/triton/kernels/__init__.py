"""The Triton kernels, and the functions that they share.

Exponentials have base 2, scores are scaled accordingly, and sums are in float32. The compiler omits
code for arguments that are `None`. An argument has the same meaning in all kernels:

- `query`, `key`, `value`: `(rows, heads, width)`, `(sources, heads, width)` and
  `(sources, heads, value_width)`, with `*_stride` entries from one row to the next;
- `out`, `rest`: the output, and its rounding error; `softmax`: see `store_softmax`;
- `to_x`: the gradient of `x`; `delta`: `out . to_out` by row and head;
- `nodes`: `(rows,)` destination of each row, or `None` without a frontier; `before`:
  `(destinations + 1,)` number of rows before each destination, which has a row itself if the next
  number is larger;
- `lo`, `hi`: `(destinations,)`, each has the sources `lo` to `hi - 1`;
- `settled`, `num_src`, `step`: see `table_row`; `settled` is `None` if a table has one row for each
  source;
- `indptr`, `neighbours`: edges by node, as in `CSREdges`; `ids`: `(edges,)` edge ids of the graph;
- `blocks`: the blocks of rows or sources that programs compute, see `IntervalTables`;
- `owner`, `start`: node and first edge of each piece of a long row, see `Pieces`;
- `bias`: `(edges, bias_heads)`; `seed`, `threshold`, `keep`: the parameters of dropout;
- `block_*`: sizes of the tiles that a program computes at once, powers of two.

These modules do without `from __future__ import annotations`: the interpreter of Triton 3.0
recognises constants by the annotations of arguments, and does not understand strings.
"""
