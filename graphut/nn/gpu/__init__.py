"""The adaptive loop on a GPU: the host never waits for the number of active nodes."""

from __future__ import annotations

from torch import nn

from graphut.nn.call_state import LoopState
from graphut.nn.gpu.async_checks import AsyncFiniteChecks
from graphut.nn.gpu.frontier import DeviceFrontier, DeviceRows
from graphut.nn.halting_frontier import HaltingFrontier
from graphut.nn.noise import Noise
from graphut.nn.rules.act import ACT
from graphut.nn.rules.base import HaltingRule


def gpu_frontier(state: LoopState) -> HaltingFrontier:
    """Return a frontier (set of active nodes) on a GPU; the host does not wait for its size.

    `state.checks` must be `AsyncFiniteChecks`, and `takes_counts` true for all attention layers.
    """
    plan, checks = state.plan, state.checks
    assert isinstance(checks, AsyncFiniteChecks)
    given = state.feat, state.encodings, state.context.num_dst, checks
    if not (state.feat.is_cuda and is_fusable(plan.rule, state.noise)):
        return DeviceFrontier(state, DeviceRows(*given, state.noise))
    # Triton decides at the import of kernels whether they are compiled or interpreted.
    from graphut.nn.gpu.fused_act import FusedFrontier, FusedRows

    assert isinstance(plan.rule, ACT) and isinstance(plan.halting, nn.Module)
    fused = FusedRows(*given, plan.rule, plan.halting, plan.max_steps)
    return FusedFrontier(state, fused)


def is_fusable(rule: HaltingRule, noise: Noise) -> bool:
    """Return whether the Triton kernels of ACT support this halting rule and this noise."""
    return type(rule) is ACT and rule.weighting == "sum" and "every_step" not in noise
