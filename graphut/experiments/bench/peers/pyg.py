"""The attention of PyG's `TransformerConv` (arXiv 2009.03509).

Its message passing is called with query, key and value as they are, so that the numbers are those
of everyone else; its four linear maps are left out.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from graphut.experiments.bench.contender import Contender, UnavailableError
from graphut.experiments.bench.peers.room import check_plain, check_room
from graphut.experiments.bench.problem import AttentionProblem

# Tensors of edges x features that are alive at once: three gathered, a product, and gradients.
_MESSAGES = 6


def prepare_pyg(problem: AttentionProblem) -> Contender:
    """See the module."""
    check_plain(problem.biased)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its own use of torch
            from torch_geometric.nn import TransformerConv
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("torch_geometric"):
            raise  # it is there, and something that it needs is not
        raise UnavailableError("not installed: pip install torch_geometric") from error
    rows, nodes = problem.rows, problem.layout.num_src
    messages = problem.edges * problem.dim * problem.inputs[0].element_size()
    check_room(_MESSAGES * messages, problem.device)
    row, source = problem.in_edges
    edge_index = torch.stack([source, row])
    per_head = problem.dim // problem.heads
    conv = TransformerConv(per_head, per_head, heads=problem.heads, root_weight=False)

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        out: Tensor = conv.propagate(
            edge_index, query=query, key=key, value=value, edge_attr=None, size=(nodes, rows)
        )
        return out

    return Contender(attend)
