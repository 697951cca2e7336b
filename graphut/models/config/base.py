"""The configuration that all models share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from graphut.models.checked_config import CheckedConfig, option, quote
from graphut.nn import HALTING_PRESETS, parse_rule
from graphut.nn.rules.base import states_read
from graphut.topology import Topology, parse

if TYPE_CHECKING:
    from typing_extensions import Self

_RENAMED = {"frame_source": "add_bos_eos"}
# Fields of version 0.2, and the values that this version still supports.
_REMOVED = {"geometric_attention": False, "copy_gate": False}


def upgrade_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Rename and drop fields of a configuration that an older version of graphut saved.

    Raise `ValueError` if a dropped field has a value that this version does not support.
    """
    for name in _REMOVED.keys() & values.keys():
        if values[name] != _REMOVED[name]:
            raise ValueError(
                f"{name} is {quote(values[name])}, which graphut does not support since version "
                "0.3: load the model with version 0.2"
            )
    return {
        _RENAMED.get(name, name): value for name, value in values.items() if name not in _REMOVED
    }


@dataclass(frozen=True, kw_only=True)
class ModelConfig(CheckedConfig):
    """A base class of configurations, with the fields that all models have.

    The fields describe a step, its repetition, and the halting of nodes. A subclass adds the fields
    of one class of models. `graphut train --help` prints the help text of each field. An invalid
    value raises `ValueError`.
    """

    d_model: int = option(128, "features of a node", least=1)
    num_heads: int = option(4, "attention heads", least=1)
    d_hidden: int = option(512, "hidden features of the feed-forward layer", least=1)
    transition: Literal["positionwise", "sepconv"] = option(
        "positionwise", "layer after attention: feed-forward, or a separable convolution"
    )
    kernel_size: int = option(3, "kernel size of the separable convolution, in tokens", least=1)
    norm: Literal["post", "pre"] = option("post", "LayerNorm after or before each sublayer")
    norm_eps: float = option(1e-5, "epsilon of the LayerNorms in a step")
    max_steps: int = option(8, "maximum number of steps", least=1)
    share_weights: bool = option(
        True, "use the same weights in every step; otherwise max_steps layers, with --no-adaptive"
    )
    adaptive: bool = option(True, "let each token halt by itself; else all take max_steps steps")
    rule: str = option(
        "act",
        "halting rule in training: act, ponder_net, threshold, convergence, fixed or another, with "
        "settings as in 'act:threshold=0.9,weighting=last'; 'global:act' for whole graphs",
    )
    evaluation_rule: str = option(
        "", "halting rule in evaluation; '' for the rule of training (for ponder_net, the median)"
    )
    halting_bias: float = option(-1.0, "initial bias of the halting unit, in logits")
    halting_gain: float = option(
        1.0, "scale of the halting unit's initial weights; 0: all tokens halt together", least=0
    )
    halting_norm: bool = option(False, "put a LayerNorm before the halting unit's linear layer")
    halted: Literal["copied", "frozen", "stale", "running"] = option(
        "copied", "state of a halted token that its neighbours read"
    )
    dropout: float = option(0.0, "dropout probability of embeddings and residual branches")
    attention_dropout: float = option(0.0, "dropout probability of attention weights")
    activation_dropout: float = option(0.0, "dropout probability in the feed-forward layer")
    scale_by_degree: bool = option(
        False, "multiply attention scores by a learned multiple of log(1 + in-degree)"
    )
    symmetric_init: bool = option(
        False, "initialise keys as queries, so that tokens first attend to similar tokens"
    )
    attention_bias: bool = option(True, "use biases in the linear layers of attention")
    position_signal: Literal["sinusoidal", "sinusoidal0", "learned", "relative", "none"] = option(
        "sinusoidal",
        "position signal: sinusoids from 1 or 0, max_length learned vectors, or relative",
    )
    step_signal: Literal["sinusoidal", "sinusoidal0", "learned", "none"] = option(
        "sinusoidal", "signal of the number of the step; learned: max_steps vectors"
    )
    inject_input: bool = option(False, "add a token's initial state again at every step")
    noise: float = option(
        0.0, "standard deviation of noise on states in training; of embeddings it is 1", least=0
    )
    noise_on: Literal["first", "injected", "every_step"] = option(
        "first", "noise on initial states, on injected ones, or on injected ones anew at every step"
    )
    max_offset: int = option(0, "maximum random offset of positions in training", least=0)
    spread_positions: bool = option(False, "training positions with random gaps, within max_offset")
    max_length: int = option(10_000, "maximum length of a sentence, in tokens", least=1)

    decodes = False  # whether the model has a causal decoder

    def _check_values(self) -> None:
        # Every step has a signal: a damaged file must not ask for more memory than there is.
        self._check("max_steps", self.max_steps <= 1_000_000, "at most 1,000,000")
        adaptive = "True if adaptive is: layers with separate weights all run"
        self._check("share_weights", self.share_weights or not self.adaptive, adaptive)
        for name in ("dropout", "attention_dropout", "activation_dropout"):
            self._check(name, 0 <= getattr(self, name) < 1, "in [0, 1)")
        self._check("norm_eps", self.norm_eps > 0, "positive")
        injects = self.noise == 0 or self.inject_input
        self._check_defaults(injects, "if inject_input is False", "noise_on")
        self._check_defaults(self.max_offset > 0, "if max_offset is 0", "spread_positions")
        self._check("num_heads", self.d_model % self.num_heads == 0, f"a divisor of {self.d_model}")
        if self.transition == "sepconv":
            self._check("kernel_size", self.kernel_size % 2 == 1, "odd")
        self._check_rules()

    def _check_rules(self) -> None:
        for name in ("rule", "evaluation_rule") if self.evaluation_rule else ("rule",):
            rule = self._parsed(name, parse_rule)
            other = "a rule other than global and event_driven, which do not fit a decoder"
            self._check(name, rule.fits_decoders or not self.decodes, other)
            if name == "evaluation_rule" and not self.adaptive:
                free = "a rule without probabilities if adaptive is False, such as 'convergence'"
                self._check(name, not rule.uses_probability, free)
                every = "'fixed' if share_weights is False: layers with separate weights all run"
                self._check(name, self.share_weights or rule.name == "fixed", every)
        if self.adaptive and self.evaluation_rule:
            read = states_read(map(parse_rule, (self.rule, self.evaluation_rule)))
            self._check("evaluation_rule", len(read) < 2, f"one with the halt_from of {self.rule}")

    def _check_causal(self, name: str) -> Topology:
        """Return the topology in the field `name`; raise `ValueError` unless it is causal."""
        topology = self._parsed(name, parse)
        self._check(name, topology.is_causal(), f"causal: '({topology})&causal'")
        return topology

    def _check_extra_nodes(self, *topologies: Topology) -> None:
        if any(topology.has_extra_nodes for topology in topologies):
            positionwise = "'positionwise' if a topology has extra nodes, which are not tokens"
            self._check("transition", self.transition == "positionwise", positionwise)
            name = self.position_signal
            between = f"other than {name!r} if a topology has extra nodes between positions"
            self._check("position_signal", name not in ("learned", "relative"), between)

    @classmethod
    def preset(cls, name: str, **others: Any) -> Self:
        """Return a configuration with the preset `HALTING_PRESETS[name]` and the fields `others`.

        Examples
        --------
        >>> from graphut import UniversalTransformerConfig
        >>> UniversalTransformerConfig.preset(
        ...     "dgl_tutorial", source_vocab=28, target_vocab=28).norm
        'pre'
        """
        if name not in HALTING_PRESETS:
            names = ", ".join(HALTING_PRESETS)
            raise ValueError(f"unknown preset {name!r}; choose one of: {names}")
        preset = HALTING_PRESETS[name]
        recurrence = {**preset["recurrence"], "rule": preset["recurrence"]["rule"].spec()}
        biases = {
            "attention_bias": preset["attention"]["bias"],
            "halting_bias": preset["halting"]["bias_init"],
            "halting_norm": preset["halting"]["norm"],
        }
        return cls(**{**biases, **preset["step"], **recurrence, **others})

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as a dictionary that JSON can represent."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return a configuration from a dictionary that `to_dict` returned.

        The dictionary may be from an older version of graphut: missing fields get their defaults.
        Raise `ValueError` if a field is unknown, or a field without a default is missing.
        """
        values = upgrade_fields(values)
        defaults = {field.name: field.default for field in fields(cls)}
        required = {name for name, default in defaults.items() if default is MISSING}
        faults = {"unknown": values.keys() - defaults.keys(), "missing": required - values.keys()}
        for what, names in faults.items():
            if names:
                raise ValueError(f"the configuration has {what} fields: {', '.join(sorted(names))}")
        return cls(**values)
