"""Edge attention in Triton, for a GPU: dense tiles over intervals, gathered rows over the rest.

`backend.py` is the way in; `function.py` is the attention with its gradient. Kernels are under
`kernels`, and imported when the first call is made, since Triton may not be installed.
"""
