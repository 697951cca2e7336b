"""The shapes of models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from graphut.nn import HALTING_PRESETS
from graphut.topology import Topology, parse

if TYPE_CHECKING:
    from typing_extensions import Self

_MEANINGS = {int: "a whole number", bool: "True or False", str: "text"}


def option(default: Any, help: str) -> Any:
    """A field with a help text."""
    return field(default=default, metadata={"help": help})


def fits(value: Any, kind: Any) -> tuple[bool, str]:
    """Whether a value is of a field's type, and what that is.

    Examples
    --------
    >>> fits(1.5, int)
    (False, 'a whole number')
    """
    if get_origin(kind) is Literal:
        return value in get_args(kind), f"one of {', '.join(map(repr, get_args(kind)))}"
    if kind is float:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return number and isfinite(value), "a finite number"
    return type(value) is kind, _MEANINGS[kind]


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The fields that every model has: a step, how it is repeated, and how a node halts.

    A kind of model adds its own. Every field has its meaning in its `help`.
    """

    d_model: int = option(128, "features of a node")
    num_heads: int = option(4, "attention heads")
    d_hidden: int = option(512, "features inside the transition")
    transition: Literal["positionwise", "sepconv"] = option(
        "positionwise", "what follows attention in a step"
    )
    kernel_size: int = option(3, "tokens that a sepconv transition spans")
    norm: Literal["post", "pre"] = option("post", "where a step normalises")
    max_steps: int = option(8, "steps that a token may take")
    share_weights: bool = option(
        True,
        "take the same weights in every step; without, a plain Transformer of max_steps layers, "
        "which goes with --no-adaptive",
    )
    adaptive: bool = option(True, "let tokens halt one by one; else all take max_steps steps")
    threshold: float = option(0.99, "sum of halting probabilities at which a token halts")
    halting_bias: float = option(-1.0, "first bias of the halting unit, in logits")
    halting_gain: float = option(
        1.0, "scale of the halting unit's first weights; with 0 all tokens halt alike at first"
    )
    halted: Literal["copied", "frozen", "stale", "running"] = option(
        "copied", "what a halted token shows its neighbours"
    )
    weighting: Literal["sum", "ema", "last"] = option(
        "sum", "how the states of a token become its output"
    )
    halt_from: Literal["input", "output"] = option(
        "input", "which state of a step the halting unit reads"
    )
    forced_remainder: bool = option(True, "let a token at max_steps spend what is left of its 1")
    cost: Literal["steps+remainder", "remainder"] = option(
        "steps+remainder", "what pondering costs, on average over tokens"
    )
    dropout: float = option(0.0, "of embeddings and residuals, as a probability")
    attention_dropout: float = option(0.0, "of attention weights, as a probability")
    scale_by_degree: bool = option(
        False, "multiply attention scores by a learned multiple of log(1 + in-degree)"
    )
    symmetric_init: bool = option(
        False, "let keys begin as queries: a token at first attends to those that are like it"
    )
    max_offset: int = option(0, "largest random offset of positions in training, in tokens")
    spread_positions: bool = option(
        False, "draw random positions in training that lie apart by chance, within max_offset"
    )
    max_length: int = option(10_000, "longest sentence that is accepted, in tokens")

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(type(self)).items():
            self._check(name, *fits(getattr(self, name), kind))
        for name in ("d_model", "num_heads", "d_hidden", "kernel_size", "max_steps", "max_length"):
            self._check(name, getattr(self, name) >= 1, "at least 1")
        once = "True where adaptive is: layers with weights of their own are all done"
        self._check("share_weights", self.share_weights or not self.adaptive, once)
        for name in ("dropout", "attention_dropout"):
            self._check(name, 0 <= getattr(self, name) < 1, "in [0, 1)")
        self._check("threshold", 0 < self.threshold <= 1, "in (0, 1]")
        for name in ("halting_gain", "max_offset"):
            self._check(name, getattr(self, name) >= 0, "0 or more")
        drawn = self.max_offset > 0 or not self.spread_positions
        self._check("spread_positions", drawn, "False where max_offset is 0")
        self._check("num_heads", self.d_model % self.num_heads == 0, f"a divisor of {self.d_model}")
        if self.transition == "sepconv":
            self._check("kernel_size", self.kernel_size % 2 == 1, "odd")

    def _check(self, name: str, right: bool, wanted: str) -> None:
        if not right:
            raise ValueError(f"{name} must be {wanted}; got {getattr(self, name)!r}")

    def _check_vocabularies(self, *names: str) -> None:
        for name in names:
            self._check(name, getattr(self, name) >= 3, "at least 3: bos, eos and one symbol")

    def _check_transition(self, *topologies: Topology) -> None:
        if any(topology.has_extra_nodes for topology in topologies):
            wanted = "'positionwise' where a topology has nodes that are no tokens"
            self._check("transition", self.transition == "positionwise", wanted)

    @property
    def head_feats(self) -> int:
        """Features of a head."""
        return self.d_model // self.num_heads

    @classmethod
    def preset(cls, name: str, **others: Any) -> Self:
        """A configuration with the halting mechanism of `graphut.nn.HALTING_PRESETS[name]`.

        Examples
        --------
        >>> UniversalTransformerConfig.preset(
        ...     "dgl_tutorial", source_vocab=28, target_vocab=28).norm
        'pre'
        """
        if name not in HALTING_PRESETS:
            raise ValueError(
                f"unknown preset {name!r}; choose one of: {', '.join(HALTING_PRESETS)}"
            )
        norm = "pre" if name == "dgl_tutorial" else "post"
        return cls(**{"norm": norm, **HALTING_PRESETS[name], **others})

    def to_dict(self) -> dict[str, Any]:
        """All fields, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """A configuration from its fields.

        One that is missing takes its default: it is younger than what was kept.

        Raises
        ------
        ValueError
            If a field is unknown, or one without a default is missing; the message names it.
        """
        known = {field.name: field.default is MISSING for field in fields(cls)}
        needed = {name for name, is_needed in known.items() if is_needed}
        for what, names in (
            ("unknown", set(values) - set(known)),
            ("missing", needed - set(values)),
        ):
            if names:
                raise ValueError(f"the configuration has {what} fields: {', '.join(sorted(names))}")
        return cls(**values)


@dataclass(frozen=True, kw_only=True)
class UniversalTransformerConfig(ModelConfig):
    """The shape of a Universal Transformer: all that its weights do not say.

    Every field has its meaning in its `help`: `graphut train --help` prints them with units.

    Raises
    ------
    ValueError
        If a value is of another type or out of range, or a topology cannot be parsed; the
        message quotes it.

    Examples
    --------
    >>> config = UniversalTransformerConfig(source_vocab=28, target_vocab=28, d_model=64)
    >>> config.head_feats
    16
    >>> UniversalTransformerConfig.from_dict(config.to_dict()) == config
    True
    """

    source_vocab: int = field(metadata={"help": "tokens in the source vocabulary"})
    target_vocab: int = field(metadata={"help": "tokens in the target vocabulary"})
    tie_output: bool = option(True, "use the target embedding as output projection")
    frame_source: bool = option(False, "put <bos> before and <eos> behind every source")
    source_positions: Literal["start", "both"] = option(
        "start",
        "count source tokens from the start; or from both ends, each in half of the features",
    )
    restart_after: int = option(
        0,
        "source token, as an id, after which positions count from the start again: parts that "
        "belong together symbol by symbol, such as the digits of two numbers, then share theirs; "
        "0 for none",
    )
    share_embeddings: bool = option(False, "use one embedding for source and target")
    encoder_topology: str = option("complete", "which source tokens a source token sees")
    decoder_topology: str = option("causal", "which target tokens a target token sees")
    cross_topology: str = option("complete", "which source tokens a target token sees")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_vocabularies("source_vocab", "target_vocab")
        if self.share_embeddings:
            same = self.source_vocab == self.target_vocab
            self._check("share_embeddings", same, "False where the two vocabularies differ in size")
        encoder, decoder, cross = (
            parse(getattr(self, f"{part}_topology")) for part in ("encoder", "decoder", "cross")
        )
        causal = f"causal: '({decoder})&causal'"
        self._check("decoder_topology", decoder.is_causal(), causal)
        even = self.d_model % 2 == 0 or self.source_positions == "start"
        self._check("source_positions", even, f"'start' where d_model is odd, {self.d_model}")
        self._check_restart(encoder)
        self._check("cross_topology", not cross.has_extra_nodes, "between tokens alone")
        self._check_transition(encoder, decoder)

    def _check_restart(self, encoder: Topology) -> None:
        known = 0 <= self.restart_after < self.source_vocab
        self._check("restart_after", known, f"a token of the {self.source_vocab}, or 0")
        one_way = self.restart_after == 0 or self.source_positions == "start"
        self._check("restart_after", one_way, "0 where source_positions is 'both'")
        tokens = self.restart_after == 0 or not encoder.has_extra_nodes
        self._check("restart_after", tokens, "0 where a topology has nodes that are no tokens")


@dataclass(frozen=True, kw_only=True)
class UniversalTransformerLMConfig(ModelConfig):
    """The shape of a Universal Transformer that is a language model.

    Raises
    ------
    ValueError
        If a value is of another type or out of range, or the topology cannot be parsed; the
        message quotes it.

    Examples
    --------
    >>> UniversalTransformerLMConfig(vocab_size=67, topology="window:64&causal").max_steps
    8
    """

    vocab_size: int = field(metadata={"help": "tokens in the vocabulary"})
    tie_output: bool = option(True, "use the embedding as output projection")
    topology: str = option("causal", "which tokens a token sees")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_vocabularies("vocab_size")
        topology = parse(self.topology)
        self._check("topology", topology.is_causal(), f"causal: '({topology})&causal'")
        self._check_transition(topology)


@dataclass(frozen=True, kw_only=True)
class ReadingConfig(ModelConfig):
    """The fields of models that read a text and say one thing of it: their nodes' places."""

    vocab_size: int = field(metadata={"help": "words in the vocabulary"})
    topology: str = option("complete", "which nodes a node sees")
    positions: Literal["start", "end"] = option(
        "start", "count nodes from the start, or back from the end, where the question is"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_vocabularies("vocab_size")
        self._check_transition(parse(self.topology))


@dataclass(frozen=True, kw_only=True)
class UniversalTransformerClassifierConfig(ReadingConfig):
    """The shape of a Universal Transformer that puts documents into classes.

    Its nodes are sentences: where the help of a field says token, read sentence.

    Raises
    ------
    ValueError
        If a value is of another type or out of range, or the topology cannot be parsed; the
        message quotes it.

    Examples
    --------
    >>> UniversalTransformerClassifierConfig(vocab_size=30, classes=6).longest_sentence
    20
    """

    classes: int = field(metadata={"help": "classes to choose from"})
    longest_sentence: int = option(20, "words of a sentence that are told apart by their places")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("classes", self.classes >= 2, "at least 2")
        self._check("longest_sentence", self.longest_sentence >= 1, "at least 1")


@dataclass(frozen=True, kw_only=True)
class UniversalTransformerPointerConfig(ReadingConfig):
    """The shape of a Universal Transformer that points at a word of a passage.

    Raises
    ------
    ValueError
        If a value is of another type or out of range, or the topology cannot be parsed; the
        message quotes it.

    Examples
    --------
    >>> UniversalTransformerPointerConfig(vocab_size=30, topology="window:16|global:0").num_heads
    4
    """
