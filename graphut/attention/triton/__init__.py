"""Edge attention in Triton, for a GPU: dense tiles for intervals, gathered rows for other graphs.

`backend.py` is the entry point; `function.py` is attention with its gradient. The kernels are in
`kernels`, and are imported at the first call, since Triton may not be installed.
"""
