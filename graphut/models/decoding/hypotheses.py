"""Hypotheses that grow, branch and die."""

from __future__ import annotations

import torch
from torch import Tensor


class Hypotheses:
    """A batch of equally long rows of ids, one id longer with each `extend`.

    Attributes
    ----------
    ids : Tensor
        `(B, length)` int64 on the CPU.
    sentences : Tensor
        `(B,)` int64 on the CPU, the sentence that each row belongs to.

    Examples
    --------
    >>> rows = Hypotheses()
    >>> rows.extend(torch.tensor([0, 1]), torch.tensor([7, 8]))
    >>> rows.extend(torch.tensor([1, 1]), torch.tensor([5, 6]))
    >>> rows.ids.tolist(), rows.sentences.tolist()
    ([[8, 5], [8, 6]], [1, 1])
    """

    def __init__(self) -> None:
        self.ids = torch.zeros(0, 0, dtype=torch.int64)
        self.sentences = torch.zeros(0, dtype=torch.int64)

    @property
    def length(self) -> int:
        """Ids in a row."""
        return self.ids.shape[1]

    def extend(self, parents: Tensor, ids: Tensor) -> None:
        """Put the rows at `parents`, each an id longer, in place of all; at first, sentences."""
        if self.length == 0:
            self.ids, self.sentences = ids[:, None], parents
        else:
            self.ids = torch.cat([self.ids[parents], ids[:, None]], 1)
            self.sentences = self.sentences[parents]
