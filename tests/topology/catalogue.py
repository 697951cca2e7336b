"""A spec of every topology, and the length of a sentence in which all of its pattern shows."""

TOKENS = {
    "complete": 2,
    "causal": 2,
    "window:3": 4,
    "dilated:2,3": 7,
    "strided:4": 9,
    "global:0,5": 6,
    "random:5@-1099511627783": 6,
    "patch:4,1": 12,
    "axial:4": 8,
    "edges:0,0,3,0,1,3": 4,
    "expander:4@3": 5,
    "bigbird:1,1,3@5": 4,
    "(bigbird:1,1,3@5)&causal": 4,
}
WITH_EXTRA_NODES = {
    "virtual:2": 2,
    "star": 3,
    "binary_partition:2": 5,
    "binary_partition:2&causal": 5,
    "star|window:2|virtual:1": 6,
}
ALL = TOKENS | WITH_EXTRA_NODES
CASES = [
    (spec, n) for spec, size in ALL.items() for n in sorted({1, 2, max(size - 1, 1), size, 63})
]
