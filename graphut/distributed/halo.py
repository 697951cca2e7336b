"""The halo of a part: copies of in-neighbours that other processes own, and their exchange.

A process owns the nodes that are destinations in its part of the graph. The sources in its part
are its owned nodes, followed by its halo. A *slot* is a pair of an owned node and another process
that has this node in its halo.

All processes must run the exchanges of a backward pass in the same order. For this, each exchange
returns an empty tensor, the token, which is an input of the next exchange.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils import _pytree as pytree

from graphut.attention import EdgeLayout
from graphut.attention.ragged import ragged_arange
from graphut.nn.noise import Noise
from graphut.nn.step import Store


class Halo:
    """The nodes of other processes that a process needs as sources, and exchanges of features.

    All processes must make the same calls in the same order.

    Parameters
    ----------
    ids : Tensor
        `(num_src,)` int64, the id in the whole graph of each source: first the owned nodes,
        sorted; then the nodes of the halo, grouped by the process that owns them.
    num_dst : int
        Number of owned nodes.
    num_nodes : int
        Number of nodes of the whole graph.
    halo_sizes : Tensor
        `(processes,)` int64, the number of halo nodes that each process owns.

    Raises
    ------
    ValueError
        If `halo_sizes` assigns a node of the halo to a process that does not own it.
    """

    def __init__(self, ids: Tensor, num_dst: int, num_nodes: int, halo_sizes: Tensor) -> None:
        # Collectives of `DistributedDataParallel` must not come between those of an exchange.
        self.group = dist.new_group()
        self.num_dst, self.num_nodes = num_dst, num_nodes
        device = "cuda" if dist.get_backend(self.group) == "nccl" else "cpu"
        self.ids, halo_sizes = ids.to(device), halo_sizes.to(device)
        # Each process tells the owners of its halo which nodes it reads, and their numbers here.
        slot_sizes = torch.empty_like(halo_sizes)
        dist.all_to_all_single(slot_sizes, halo_sizes, group=self.group)
        numbers = torch.arange(num_dst, len(ids), device=device)
        requests = torch.stack([self.ids[num_dst:], numbers], 1)
        requested = requests.new_empty(int(slot_sizes.sum()), 2)
        sizes = slot_sizes.tolist(), halo_sizes.tolist()
        dist.all_to_all_single(requested, requests, *sizes, group=self.group)
        owned = self.ids[:num_dst]
        self.slot_nodes = torch.searchsorted(owned, requested[:, 0].contiguous())
        if not torch.equal(owned[self.slot_nodes.clamp_max(num_dst - 1)], requested[:, 0]):
            raise ValueError(
                "a part reads a node that its owner does not have: cut the graph again"
            )
        self.slot_targets = requested[:, 1].int()  # numbers of the nodes at the reading process
        self.slot_ends = slot_sizes.cumsum(0)
        # The slots of each owned node.
        self.slots = self.slot_nodes.argsort(stable=True)
        self.slots_of = torch.bincount(self.slot_nodes, minlength=num_dst)
        self.first_slot = self.slots_of.cumsum(0) - self.slots_of

    def store(self, layout: EdgeLayout, **options: Any) -> PartStore:
        """Return a store for one run of a recurrence on the part, with an `Exchange`."""
        return PartStore(self, layout, **options)

    def fetch(self, rows: Tensor) -> Tensor:
        """Return the features of all sources, `(num_src, d)`: `rows` of owned nodes, then the halo.

        The backward pass sends the gradients of the halo nodes to their owners, which add them up.

        Examples
        --------
        A layer or a step on a part: `layer(part.layout, part.halo.fetch(x))`.
        """
        return Exchange(self).received(None, rows)[1]

    def sum(self, values: Tensor) -> Tensor:
        """Return the sum of a tensor over all processes; the backward pass sums gradients, too."""
        return Exchange(self).all_reduce(values)

    def first(self, number: int) -> int:
        """Return, in every process, the `number` that process 0 passes to its call."""
        shared = torch.tensor([number], device=self.ids.device)
        dist.broadcast(shared, group=self.group, group_src=0)
        return int(shared)


class Exchange:
    """Transfers between processes in one model run; the backward pass reverses their order."""

    def __init__(self, halo: Halo) -> None:
        self.halo = halo
        self._token = torch.empty(0, device=halo.ids.device, requires_grad=torch.is_grad_enabled())

    def received(self, nodes: Tensor | None, rows: Tensor) -> tuple[Tensor | None, Tensor]:
        """Send features of owned nodes to the processes that need them, and receive theirs.

        `rows`, `(A, d)`, are the features of `nodes`, sorted indices of owned nodes (None: of all).
        Return the indices and the features of these nodes, followed by those of the halo nodes that
        were received. The returned indices are None if these are all sources.
        """
        halo, all_nodes = self.halo, torch.arange(self.halo.num_dst, device=self.halo.ids.device)
        of_nodes = all_nodes if nodes is None else nodes
        row, offset = ragged_arange(halo.slots_of[of_nodes])
        slot, order = halo.slots[halo.first_slot[of_nodes[row]] + offset].sort()
        sent = torch.searchsorted(slot, halo.slot_ends).diff(prepend=slot.new_zeros(1))
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent, group=halo.group)
        sizes = sent.tolist(), received.tolist()
        self._token, halo_rows, ids = _Send.apply(  # type: ignore[no-untyped-call]
            self._token, rows, row[order], halo.slot_targets[slot], sizes, halo.group
        )
        rows = torch.cat([rows, halo_rows])
        is_all = nodes is None and len(rows) == len(halo.ids)
        return None if is_all else torch.cat([of_nodes, ids]), rows

    def all_reduce(self, values: Tensor) -> Tensor:
        """Return the sum of a tensor over all processes; the backward pass sums gradients, too."""
        total: Tensor
        self._token, total = _Sum.apply(  # type: ignore[no-untyped-call]
            self._token, values, self.halo.group
        )
        return total

    def any_active(self, count: int) -> bool:
        """Return whether any process has active nodes; this process has `count` of them."""
        most = torch.tensor(count, device=self.halo.ids.device)
        dist.all_reduce(most, dist.ReduceOp.MAX, group=self.halo.group)
        return bool(most)

    def close(self, results: Any) -> Any:
        """Return the results of the call, a pytree, linked in autograd to all its exchanges.

        Otherwise, other processes would wait in a backward pass for one whose results do not depend
        on the last exchanges.
        """
        if not self._token.requires_grad:
            return results
        leaves, tree = pytree.tree_flatten(results)
        at = [i for i, x in enumerate(leaves) if isinstance(x, Tensor) and x.requires_grad]
        tied = _Close.apply(self._token, *[leaves[i] for i in at])  # type: ignore[no-untyped-call]
        for i, x in zip(at, tied, strict=True):
            leaves[i] = x
        return pytree.tree_unflatten(leaves, tree)


class PartStore(Exchange, Store):
    """The store of a process that has a part of the graph; arguments as of `Store`."""

    replaces_all = False

    def __init__(self, halo: Halo, layout: EdgeLayout, **options: Any) -> None:
        Exchange.__init__(self, halo)
        Store.__init__(self, layout, **options)

    def same_noise(self, noise: Noise) -> Noise:
        """Return noise with the seed of process 0, which depends on ids in the whole graph."""
        halo = self.halo
        return {k: replace(x, seed=halo.first(x.seed), ids=halo.ids) for k, x in noise.items()}


class _Send(torch.autograd.Function):
    """Send rows of features, each with its 4-byte index at the receiver, in one collective."""

    @staticmethod
    def forward(
        ctx: Any, token: Tensor, rows: Tensor, row: Tensor, targets: Tensor, sizes: Any, group: Any
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.row, ctx.shape, ctx.sizes, ctx.group = row, rows.shape, sizes, group
        sent, received = sizes
        numbers = targets[:, None].view(torch.uint8)
        packed = torch.cat([rows.index_select(0, row).view(torch.uint8), numbers], 1)
        arrived = packed.new_empty(sum(received), packed.shape[1])
        dist.all_to_all_single(arrived, packed, received, sent, group=group)
        # `contiguous` would keep the stride of a single row.
        feats, ids = (
            x.clone(memory_format=torch.contiguous_format).view(dtype)
            for x, dtype in ((arrived[:, :-4], rows.dtype), (arrived[:, -4:], torch.int32))
        )
        ids = ids[:, 0].long()
        ctx.mark_non_differentiable(ids)
        return token.clone(), feats, ids

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, token: Tensor, grad: Tensor, _: Any) -> tuple[Tensor | None, ...]:
        sent, received = ctx.sizes
        arrived = grad.new_empty(sum(sent), *ctx.shape[1:])
        dist.all_to_all_single(arrived, grad.contiguous(), sent, received, group=ctx.group)
        rows = grad.new_zeros(ctx.shape).index_add_(0, ctx.row, arrived)
        return token, rows, None, None, None, None


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, token: Tensor, values: Tensor, group: Any) -> tuple[Tensor, Tensor]:
        ctx.group, total = group, values.clone()
        dist.all_reduce(total, group=group)
        return token.clone(), total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, token: Tensor, total: Tensor) -> tuple[Tensor | None, ...]:
        total = total.clone()
        dist.all_reduce(total, group=ctx.group)
        return token, total, None


class _Close(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, token: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.save_for_backward(token)
        ctx.set_materialize_grads(False)
        return tuple(x.view_as(x) for x in tensors)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *tensors: Tensor) -> tuple[Tensor | None, ...]:
        return ctx.saved_tensors[0].clone(), *tensors
