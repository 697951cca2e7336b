"""Steps that are called as modules, for hooks and for gradient checkpointing."""

from copy import copy

from torch import Tensor
from torch.utils.checkpoint import checkpoint

from graphut.nn.call_state import EncoderOutput, GraphContext
from graphut.nn.ponder import FlopCount
from graphut.nn.step import UniversalTransformerStep


class HookedStep:
    """A step that the adaptive loop calls as a module, so that all its hooks run.

    The context then contains states instead of keys and values. With `checkpointed`, the backward
    pass calls the step again.
    """

    is_hooked = True

    def __init__(self, step: UniversalTransformerStep, *, checkpointed: bool) -> None:
        self.step = step
        self.readout = step.readout
        self.norm = step.norm
        self.checkpointed = checkpointed

    def project(self, rows: Tensor) -> Tensor:
        """Return the states unchanged; `update` projects them to keys and values."""
        return rows

    def update(self, rows: Tensor, context: GraphContext) -> Tensor:
        """Call the step, and return the new states of the active nodes, `(A, d)`."""
        states = context.key_value
        assert states is not None
        context.work.projections[-1] = (context.num_src, None)
        if not self.checkpointed:
            return self._call(context, states)
        # The second call needs the context of the first. The copy must not see the results of later
        # steps, because they would refer to the autograd graph that refers to them.
        before = branch(context)

        def call(states: Tensor) -> tuple[Tensor, GraphContext]:
            context = branch(before)
            return self._call(context, states), context

        out, after = checkpoint(call, states, use_reentrant=False)
        if after.encoded is not None and context.encoded is not None:
            after.encoded.flops += context.encoded.flops
        context.combined, context.encoded = after.combined, after.encoded
        context.weights += after.weights
        context.cross_weights += after.cross_weights
        context.work.attended += after.work.attended
        context.work.cross_attended += after.work.cross_attended
        return out

    def _call(self, context: GraphContext, states: Tensor) -> Tensor:
        self.step.loop_context = context
        try:
            out: Tensor = self.step(context.layout, states, frontier=context.frontier)
        finally:
            self.step.loop_context = None
        return out


def branch(context: GraphContext) -> GraphContext:
    """Return a copy of a context for a checkpointed step, with empty records of the work done."""
    fresh = copy(context)
    fresh.work, fresh.weights, fresh.cross_weights = FlopCount(), [], []
    fresh.encoded = None if context.encoded is None else EncoderOutput(context.encoded.feat)
    return fresh
