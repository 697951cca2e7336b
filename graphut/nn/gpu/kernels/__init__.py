"""The Triton kernels of a recurrence on a GPU, apart from attention.

Grids and shapes do not depend on values: a program reads the number of rows on the device, and ends
at once if it has none. Most arguments are named tuples of `graphut.nn.gpu.arguments`: `shared`,
`now` (of the step) and `last` (of the last one), `grads`, `norm`, and operands of products. `to_x`
is the gradient of `x`, and `parts` are sums of programs, which torch adds up at the end.

Sums and normalisations are in float32.
"""
