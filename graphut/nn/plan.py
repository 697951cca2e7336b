"""The plan of a call of a recurrence: all decisions that do not depend on values of features."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from graphut.nn.noise import InputNoise
from graphut.nn.quantized import Quantized
from graphut.nn.rules import HaltingRule
from graphut.nn.signals import Signal


class Options(NamedTuple):
    """Flags for the arguments that a call has; a plan depends on the flags, not on the values."""

    is_list: bool = False  # whether the graph is a list of sampled blocks
    by_edge: bool = False  # edge biases, features or weights
    get_attention: bool = False
    record: bool = False  # whether the call returns the rows of each step
    grouped: bool = False  # whether `graph_ids` divide the nodes


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """The decisions about one kind of call of a recurrence."""

    rule: HaltingRule
    max_steps: int
    steps: Sequence[Any]  # the modules that compute a step, perhaps as `HookedStep`
    frontier: str  # a key of `graphut.nn.loop.FRONTIERS`
    halted: str  # as in `AdaptiveRecurrence`, but never "copied" if "frozen" is the same
    has_linear_projection: bool  # whether a step signal moves all values by one vector
    halting: Callable[..., Tensor] | None  # None if nothing reads the probabilities
    halt_from: str
    position_signal: Signal | None
    step_signal: Signal | None  # None if `signals` has its values
    signals: Tensor | None  # (max_steps, d)
    signal_of: Sequence[Tensor] | None  # the rows of `signals`
    positions: Tensor | None  # the signals of positions 0, 1, ...
    inject_input: bool
    noise: InputNoise | Sequence[InputNoise] | None
    training: bool
    quantize: Quantized | None
    is_traced: bool  # whether values of tensors cannot be read
    waits: bool  # whether the host waits for the device, to check values and to count nodes
    in_place: int  # number of heads of a `KeyValueMemory` that replaces the table; 0 without
    cross_in_place: bool  # whether cross-attention reads a `KeyValueMemory`
    program: Any  # `gpu.settings.Settings` if a fixed sequence of launches computes all steps
    node_flops: int
    key_value_flops: int
    edge_flops: int
    # To notice features that do not fit: their shape, and where the first parameter is.
    shape: torch.Size
    parameters: dict[str, Any]
    parameter: str

    def fits(self, feat: Tensor) -> bool:
        """Return whether features have the right shape, and the dtype and device of the layer."""
        weight = self.parameters.get(self.parameter)
        return (
            weight is not None
            and feat.shape == self.shape
            and feat.dtype == weight.dtype
            and feat.device == weight.device
        )
