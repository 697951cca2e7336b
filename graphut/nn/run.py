"""Run a call of a recurrence: as a program on a GPU, or by one of the two loops."""

from typing import Any

from torch import Tensor

from graphut.attention import EdgeLayout
from graphut.attention.key_value_memory import KeyValueMemory
from graphut.attention.tracing import is_capturing
from graphut.nn.attention import MultiHeadAttention
from graphut.nn.call import Call, LoopOutput
from graphut.nn.finite_checks import FiniteChecks
from graphut.nn.gpu import AsyncFiniteChecks, program_of, run_program
from graphut.nn.loop import repeat_until_halted
from graphut.nn.waking import Start, repeat_until_quiescent


def run_call(call: Call, start: Start | None = None) -> LoopOutput:
    """Run all steps of a call, and return the results of all nodes; with `start`, from there on."""
    choose_backend(call)
    if call.waits or call.program is None:
        call.checks.check_features(call.given)
    if call.program is not None:
        output: LoopOutput | None = run_program(call, start)
        if output is not None:
            return output
        call.checks = FiniteChecks(call.is_traced)
        choose_backend(call)  # which knows that the program has failed
        call.checks.check_features(call.given)
    if call.is_waking:
        return repeat_until_quiescent(call, start)
    return repeat_until_halted(call)


def choose_backend(call: Call) -> None:
    """Let the attention layers read a `KeyValueMemory`, or a program run the call on a GPU."""
    store, layout = call.store, call.store.layout
    if call.is_list or call.checkpoints or is_capturing():
        return
    attentions = [step.attention for step in call.steps]
    if not (call.rows is not None or store.edge_options):
        if all(_fits_memory(each, layout, call.feat) for each in attentions):
            store.memory = KeyValueMemory(attentions[0].num_heads)
        call.program, call.waits = program_of(call)
        if not call.waits:
            call.checks = AsyncFiniteChecks(call.layer)
    if call.waits and store.encoded is not None and not store.get_attention:
        cross = [step.cross_attention for step in call.steps]
        between: Any = store.cross_layout
        store.encoded.in_place = all(_fits_memory(each, between, call.feat) for each in cross)


def _fits_memory(attention: Any, layout: EdgeLayout, feat: Tensor) -> bool:
    return isinstance(attention, MultiHeadAttention) and attention.fits_memory(layout, feat)
