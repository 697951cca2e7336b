"""A feed-forward layer that reads neighbouring tokens: the separable convolution."""

import torch
from torch import Tensor, nn

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout, as_layout
from graphut.nn.layers import Transition
from graphut.nn.rules.base import batch_index


class SeparableConvTransition(Transition):
    r"""Separable convolution along each sentence, an activation, and a linear map.

    .. math::
        \mathrm{Transition}(c)_i = W_2 \, \phi(W_1 \sum_k f_k \odot c_{i+k} + b_1) + b_2

    The separable-convolution transition of arXiv 1807.03819, section 2.1: a depthwise convolution,
    then a pointwise one. Each sentence is padded with zeros at both ends.

    Parameters
    ----------
    kernel_size : int
        Number of tokens that the filter covers; odd unless `causal`.
    causal : bool
        Let the filter end at the token, instead of centering it there.
    in_feats, hidden_feats, activation, dropout
        See `PositionwiseTransition`.

    Raises
    ------
    ValueError
        If `kernel_size` is below 1, or even without `causal`.

    Examples
    --------
    >>> from graphut.topology import Complete
    >>> conv = SeparableConvTransition(8, 32, kernel_size=3)
    >>> conv(Complete().graph([3, 2]), torch.randn(5, 8)).shape
    torch.Size([5, 8])
    """

    def __init__(
        self,
        in_feats: int,
        hidden_feats: int,
        *,
        kernel_size: int = 3,
        causal: bool = False,
        activation: nn.Module | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(in_feats, hidden_feats, activation, dropout)
        if kernel_size < 1 or not (causal or kernel_size % 2):
            raise ValueError(f"kernel_size must be 1 or more, odd unless causal; got {kernel_size}")
        self.kernel_size, self.causal = kernel_size, causal
        self.node_flops += 2 * kernel_size * in_feats
        self.depthwise = nn.Parameter(torch.empty(kernel_size, in_feats))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new parameters of the filter and of the linear maps."""
        bound = self.kernel_size**-0.5
        nn.init.uniform_(self.depthwise, -bound, bound)
        super().reset_parameters()

    @property
    def offsets(self) -> range:
        """Positions of the tokens that the filter covers, relative to the current token."""
        left = self.kernel_size - 1 if self.causal else self.kernel_size // 2
        return range(-left, self.kernel_size - left)

    def forward(
        self, graph: DGLGraph | EdgeLayout, feat: Tensor, *, frontier: Tensor | None = None
    ) -> Tensor:
        """Apply the layer to all nodes, or to the nodes in `frontier`.

        `feat`, `(N, in_feats)`, are features of all nodes, and `frontier`, `(A,)`, are ids. Each
        graph of a batch is a sentence. Raise `ValueError` if a node of the graph is not a token.
        """
        layout = as_layout(graph).to(feat.device)
        if layout.extra_nodes:
            raise ValueError(
                "a convolution needs a sequence of tokens, and this topology has nodes that are "
                "not tokens: use PositionwiseTransition, or another topology"
            )
        if feat.shape[0] != layout.num_dst:
            raise ValueError(f"feat has {feat.shape[0]} rows; the graph has {layout.num_dst} nodes")
        sentence = layout.cached(batch_index).graph
        nodes = torch.arange(feat.shape[0], device=feat.device) if frontier is None else frontier
        reach = self.offsets
        taps = nodes[:, None] + torch.arange(reach.start, reach.stop, device=feat.device)
        inside = taps.clamp(0, feat.shape[0] - 1)
        present = (inside == taps) & (sentence[inside] == sentence[nodes, None])
        return self.convolve(feat[inside] * present[..., None].to(feat.dtype))

    def convolve(self, window: Tensor) -> Tensor:
        """Return the output of `A` tokens, given `window`: the features that the filter covers."""
        return self.layers((window * self.depthwise).sum(1))

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, causal={self.causal}"
