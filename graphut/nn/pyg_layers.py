"""Layers that derive from those of PyG; they need `torch_geometric`."""

import warnings
from typing import Any

from torch import Tensor

from graphut.attention import edge_attention
from graphut.attention.tracing import in_jit_trace
from graphut.nn.conv_adapters import has_message_hooks
from graphut.nn.graph_call import from_edge_index
from graphut.nn.layers import edge_feature_options

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # PyG uses deprecated functions of torch
    from torch_geometric import nn as pyg
    from torch_geometric.utils import is_torch_sparse_tensor


class TransformerConv(pyg.TransformerConv):  # type: ignore[misc]
    """PyG's `TransformerConv` on graphut's kernels, with the same arguments and parameters.

    From "Masked Label Prediction" (arXiv 2009.03509). PyG's own message passing is used where the
    message of each edge is needed: for attention weights, explanations, hooks on messages and
    aggregations other than sums; for sparse matrices; and in `torch.jit.trace`, which cannot record
    graphut's kernels.

    Examples
    --------
    >>> import torch
    >>> layer = TransformerConv(8, 5, heads=2, edge_dim=3)
    >>> edge_index = torch.tensor([[0, 1, 2, 0], [1, 1, 0, 2]])
    >>> layer(torch.randn(3, 8), edge_index, torch.randn(4, 3)).shape
    torch.Size([3, 10])
    """

    _returns_weights = False  # set by each call

    def forward(
        self,
        x: Tensor | tuple[Tensor, Tensor],
        edge_index: Any,
        edge_attr: Tensor | None = None,
        return_attention_weights: bool | None = None,
    ) -> Any:
        """Attend over the edges of a graph; see `torch_geometric.nn.TransformerConv`."""
        self._returns_weights = isinstance(return_attention_weights, bool)
        return super().forward(x, edge_index, edge_attr, return_attention_weights)

    def propagate(self, edge_index: Any, size: Any = None, **features: Any) -> Any:
        """Return the attention output of each target node, `(N, heads, out_channels)`."""
        if not self._is_attention(edge_index):
            return pyg.MessagePassing.propagate(self, edge_index, size, **features)
        query, key = features["query"], features["key"]
        by_head = (self.heads, self.out_channels)
        return edge_attention(
            from_edge_index(edge_index.long(), (len(key), len(query))),
            query,
            key,
            features["value"],
            **edge_feature_options(features["edge_attr"], self.lin_edge, by_head, pyg.Linear),
            dropout=self.dropout if self.training else 0.0,
            allow_zero_in_degree=True,
        )

    def _is_attention(self, edge_index: Any) -> bool:
        """Return whether graphut's kernels can be used: nothing needs the message of each edge."""
        return (
            isinstance(edge_index, Tensor)
            and not is_torch_sparse_tensor(edge_index)
            and not in_jit_trace()
            and not (has_message_hooks(self) or self.explain or self._returns_weights)
            and self.aggr in ("add", "sum")
            and self.flow == "source_to_target"
            and type(self).message is pyg.TransformerConv.message
        )
