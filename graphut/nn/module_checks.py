"""Checks of the modules and settings from which layers are made."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from torch import distributed, nn
from torch.nn.modules.batchnorm import _BatchNorm

from graphut.attention.registry import check_backend
from graphut.nn.transition import SeparableConvTransition

_PARTS = {  # the last two may be None
    "attention": "MultiHeadAttention, or a layer of DGL or PyG as ConvAsAttention(layer, feats)",
    "transition": "PositionwiseTransition, SeparableConvTransition or None",
    "cross_attention": "MultiHeadAttention or None",
}


def check_attention_options(backend: str, attn_drop: float, **sizes: int | None) -> None:
    """Raise an error if a backend is unknown, or a probability or a size is out of range."""
    check_backend(backend)
    check_sizes(**sizes)
    check_probability("attn_drop", attn_drop)


def check_sizes(**sizes: int | None) -> None:
    """Raise `ValueError` if one of the sizes, which have the names of arguments, is below 1."""
    for name, size in sizes.items():
        if size is not None and size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")


def check_probability(name: str, value: float) -> None:
    """Raise `ValueError` unless the argument `name` is a probability below 1."""
    if not 0.0 <= value < 1.0:
        raise ValueError(f"{name} must lie in [0, 1), got {value}")


def check_widths(step: Any) -> None:
    """Raise an error unless the parts of a step are layers with the same number of features."""
    for name, kinds in _PARTS.items():
        part, kind = getattr(step, name), int if name == "transition" else tuple
        is_missing = part is None and name != "attention"
        if not (is_missing or isinstance(getattr(part, "in_feats", None), kind)):
            raise TypeError(f"{name} must be {kinds}; got {type(part).__name__}")
    source, width = step.attention.in_feats
    widths = {"sources of attention": source, "output of attention": step.attention.out_feats}
    if step.transition is not None:
        widths["transition"] = step.transition.in_feats
    if step.cross_attention is not None:
        widths["destinations of cross_attention"] = step.cross_attention.in_feats[1]
        widths["output of cross_attention"] = step.cross_attention.out_feats
    for name, other in widths.items():
        if other != width:
            raise ValueError(
                "all parts of a step need the same number of features: destinations of attention "
                f"have {width}, but {name} has {other}"
            )


def check_separate_steps(steps: Sequence[Any], halting: nn.Module | None, max_steps: int) -> None:
    """Raise an error unless there are `max_steps` steps with equal settings, and no `halting`."""
    if halting is not None:
        raise ValueError("a sequence of steps has a fixed depth: use halting=None")
    if len(steps) != max_steps:
        raise ValueError(f"got {len(steps)} steps for max_steps={max_steps}; pass {max_steps}")
    if len(set(steps)) < len(steps):
        raise ValueError("a step is in the sequence twice; pass one step to share its weights")
    if any(step.output_norm is not None for step in steps[:-1]):
        raise ValueError("only the last step may have an output norm: use output_norm=False")
    settings = []
    for number, step in enumerate(steps, 1):
        parts = [repr(part) for name, part in step.named_children() if name != "output_norm"]
        shapes = [(n, x.shape) for n, x in step.named_parameters() if "output_norm" not in n]
        settings.append((step.extra_repr(), parts, shapes))
        if settings[0] != settings[-1]:
            raise ValueError(f"step {number} has other settings than the first step")


def check_batch_norm(layer: nn.Module, rule: Any, in_training: bool) -> None:
    """Raise an error if a `BatchNorm` in `layer` depends on which nodes are active."""
    for module in layer.modules():  # in evaluation, running statistics do not depend on the nodes
        if isinstance(module, _BatchNorm) and (in_training or not module.track_running_stats):
            raise ValueError(
                f"{rule} cannot be used with {type(module).__name__}, whose statistics depend on "
                "which nodes are active: use LayerNorm, or the "
                "batch_norm of UniversalTransformerStep"
            )


def check_sharding(*parts: nn.Module | None) -> None:
    """Raise an error if `fully_shard` (FSDP2) was called on a module that runs in every step."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return
    for module in chain.from_iterable(part.modules() for part in parts if part is not None):
        if any(kind.__name__ == "FSDPModule" for kind in type(module).__mro__):
            raise RuntimeError(
                f"fully_shard was called on {type(module).__name__}, which runs in every step, and "
                "keys and values are computed outside of it: call fully_shard on the "
                "AdaptiveRecurrence, or on a module that contains it, and not inside it"
            )


def check_event_driven(rule: Any, step: Any, halting: nn.Module | None, step_signal: Any) -> None:
    """Raise a `ValueError` if the parts of a recurrence do not support event-driven runs."""
    if isinstance(step, nn.ModuleList):
        raise ValueError(f"{rule} needs one step for all repetitions, not {len(step)} steps")
    unsupported = ""
    if step_signal is not None:
        unsupported = "a step signal, because sleeping nodes miss rounds: give step_signal=None"
    elif halting is not None:
        unsupported = "a halting module, because no node halts for good: give halting=None"
    elif step.cross_attention is not None:
        unsupported = "a decoder step, because the nodes that read it would wake with every token"
    elif any(getattr(part, "counts_steps", False) for part in step.modules()):
        unsupported = (
            "batch normalisation by steps, because sleeping nodes miss rounds: give LayerNorm"
        )
    elif isinstance(step.transition, SeparableConvTransition):
        unsupported = "a separable convolution, which reads other nodes than in-neighbours"
    if unsupported:
        raise ValueError(f"{rule} cannot be used with {unsupported}")
