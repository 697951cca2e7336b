"""The Triton kernels of a recurrence on a GPU, apart from attention.

Grids and shapes do not depend on values: a program reads the number of rows on the device, and ends
at once if it has none. An argument has the same meaning in all kernels:

- `nodes`: the node of each row; rows of active nodes come first, in order, and then those of nodes
  that are stored, but not computed; `count`: the number of rows, `active`: of active nodes;
- `halted`: `(sources,)` int32, the step at which each node halts, or the last step so far as known;
- `stats`, `scale`, `shift`: mean and inverse deviation of each row, weight and bias of a LayerNorm;
  `scale` is `None` where there is none;
- `other`: a tensor by node with the columns from `split` on; the first columns are by row;
- `to_x`: the gradient of `x`; `parts`: sums of programs, which torch adds up at the end.

Sums and normalisations are in float32.
"""
