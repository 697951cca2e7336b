"""The mean over in-neighbours, in the place of attention."""

from typing import Any

from torch import Tensor, nn

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout, as_layout
from graphut.attention.neighbor_sums import neighbor_sum
from graphut.nn.input_checks import destination_rows


class NeighborMean(nn.Module):
    r"""Add a map of a node to the mean over its in-neighbours, by one sparse product.

    .. math::
        \mathrm{out}_i = W y_i + b + \frac{1}{|E(i)|} \sum_{j \in E(i)} U y_j

    This is GraphSAGE (arXiv 1706.02216) with the mean, as PyG's `SAGEConv(feats, feats)`. The sum
    is 0 for a node without in-edges. The layer replaces attention in `UniversalTransformerStep`.

    Examples
    --------
    >>> import torch
    >>> from graphut.nn import from_edge_index
    >>> layout = from_edge_index(torch.tensor([[0, 1], [2, 2]]), 3)
    >>> NeighborMean(8)(layout, torch.randn(3, 8)).shape
    torch.Size([3, 8])
    """

    def __init__(self, feats: int) -> None:
        super().__init__()
        self.in_feats, self.out_feats = (feats, feats), feats
        self.node_flops = self.key_value_flops = 2 * feats * feats
        self.edge_flops = feats
        self.own, self.neighbors = nn.Linear(feats, feats), nn.Linear(feats, feats, bias=False)

    def reset_parameters(self) -> None:
        """Draw new parameters of both maps."""
        self.own.reset_parameters()
        self.neighbors.reset_parameters()

    def project(self, feat_src: Tensor) -> Tensor:
        """Return what a source adds to the mean, `(N_src, feats)`."""
        mapped: Tensor = self.neighbors(feat_src)
        return mapped

    def forward(
        self,
        graph: DGLGraph | EdgeLayout,
        feat: Tensor,
        *,
        stored: Tensor | None = None,
        **options: Any,
    ) -> Tensor:
        """Return the output, `(A, feats)`; see `ConvAsAttention.forward` for the arguments."""
        layout, rows = as_layout(graph), feat
        if stored is None:
            rows, stored = destination_rows(layout, feat, options.get("frontier")), feat
            stored = self.project(stored)
        return self.attend(layout, rows, stored, **options)[0]

    def attend(
        self,
        layout: EdgeLayout,
        rows: Tensor,
        projected: Tensor,
        *,
        frontier: Tensor | None = None,
        **others: Any,
    ) -> tuple[Tensor, None]:
        """Return the output, given the rows of the destinations and `projected`; and None."""
        for name, value in others.items():
            if value is not None and value is not False:
                raise ValueError(f"a mean over neighbours does not support {name}: use attention")
        total = neighbor_sum(layout, projected, frontier=frontier)
        degrees = layout.in_degrees if frontier is None else layout.in_degrees[frontier]
        mean = total / degrees.clamp_min(1)[:, None].to(total.dtype)
        return self.own(rows) + mean.to(rows.dtype), None
