"""The configurations of the models and of a search, which do not import torch."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from typing import Any, ClassVar, Literal

from graphut.models.checked_config import CheckedConfig, option
from graphut.nn import parse_rule
from graphut.nn.rules.base import states_read
from graphut.topology import Topology, parse


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
    position_signal: Literal["sinusoidal", "sinusoidal0", "none"] = option(
        "sinusoidal", "position signal: sinusoids from 1 or 0"
    )
    step_signal: Literal["sinusoidal", "sinusoidal0", "none"] = option(
        "sinusoidal", "signal of the number of the step: sinusoids from 1 or 0"
    )
    inject_input: bool = option(False, "add a token's initial state again at every step")
    noise: float = option(
        0.0, "standard deviation of noise on states in training; of embeddings it is 1", least=0
    )
    noise_on: Literal["first", "every_step"] = option(
        "first", "noise on initial states, or on injected ones, anew at every step"
    )
    max_offset: int = option(0, "maximum random offset of positions in training", least=0)
    spread_positions: bool = option(False, "training positions with random gaps, within max_offset")
    max_length: int = option(10_000, "maximum length of a sentence, in tokens", least=1)

    decodes = False  # whether the model has a causal decoder

    def _check_values(self) -> None:
        adaptive = "True if adaptive is: layers with separate weights all run"
        self._check("share_weights", self.share_weights or not self.adaptive, adaptive)
        for name in ("dropout", "attention_dropout", "activation_dropout", "input_dropout"):
            self._check(name, 0 <= getattr(self, name, 0) < 1, "in [0, 1)")
        injects = self.noise == 0 or self.inject_input
        self._check_defaults(injects, "if inject_input is False", "noise_on")
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


@dataclass(frozen=True, kw_only=True)
class UniversalTransformerConfig(ModelConfig):
    """Options of a `UniversalTransformer`, which `graphut train sort --help` describes, too.

    Examples
    --------
    >>> UniversalTransformerConfig(source_vocab=28, target_vocab=28, d_model=64).max_steps
    8
    """

    source_vocab: int = option(MISSING, "size of the source vocabulary", least=3)
    target_vocab: int = option(MISSING, "size of the target vocabulary", least=3)
    add_bos_eos: bool = option(False, "put <bos> before and <eos> after every source")
    source_positions: Literal["start", "both"] = option(
        "start",
        "count source positions from the start, or from both ends, half of the features each",
    )
    restart_after: int = option(
        0, "id of a source token after which positions restart at 1, such as '+'; 0 for none"
    )
    segment_embedding: bool = option(
        False, "add one learned vector to source tokens before restart_after, another to later ones"
    )
    share_embeddings: bool = option(False, "use one embedding for source and target")
    encoder_topology: str = option("complete", "source tokens that a source token attends to")
    decoder_topology: str = option("causal", "target tokens that a target token attends to")
    cross_topology: str = option("complete", "source tokens that a target token attends to")

    decodes = True

    def _check_values(self) -> None:
        super()._check_values()
        same = self.source_vocab == self.target_vocab
        self._check_defaults(same, "if the two vocabularies differ in size", "share_embeddings")
        encoder = self._parsed("encoder_topology", parse)
        decoder = self._check_causal("decoder_topology")
        cross = self._parsed("cross_topology", parse)
        even = self.d_model % 2 == 0
        self._check_defaults(even, f"if d_model is odd, {self.d_model}", "source_positions")
        self._check("cross_topology", not cross.has_extra_nodes, "one without extra nodes")
        self._check_extra_nodes(encoder, decoder)
        exists = 0 <= self.restart_after < self.source_vocab
        self._check("restart_after", exists, f"one of the {self.source_vocab} tokens, or 0")
        one_way = self.source_positions == "start"
        self._check_defaults(one_way, "if source_positions is 'both'", "restart_after")
        extra = "if the encoder's topology has extra nodes"
        self._check_defaults(not encoder.has_extra_nodes, extra, "restart_after")


@dataclass(frozen=True, kw_only=True)
class UniversalTransformerLMConfig(ModelConfig):
    """The configuration of a `UniversalTransformerLM`."""

    vocab_size: int = option(MISSING, "size of the vocabulary", least=3)
    topology: str = option("causal", "tokens that a token attends to")

    decodes = True

    def _check_values(self) -> None:
        super()._check_values()
        self._check_extra_nodes(self._check_causal("topology"))


@dataclass(frozen=True, kw_only=True)
class UniversalGraphTransformerConfig(ModelConfig):
    """The configuration of a `UniversalGraphTransformer`.

    A node has a kind, an integer, or features. In the help of inherited fields, a token is a node.
    """

    num_kinds: int = option(0, "kinds of nodes; 0 where nodes have features", least=0)
    num_feats: int = option(0, "features of a node; 0 where nodes have kinds", least=0)
    classes: int = option(0, "classes to choose from; 0 where edges answer")
    answer_at: Literal["node", "edge", "graph"] = option("node", "where the answers are")
    answer_kind: Literal["class", "values"] = option("class", "kind of an answer: class, or values")
    edge_feats: int = option(0, "features of an edge, which attention reads", least=0)
    input_norm: bool = option(
        False, "put a LayerNorm after the linear map of the features, if nodes have features"
    )
    input_dropout: float = option(0.0, "dropout probability of the features of nodes")
    layer: Literal["attention", "gat", "gin", "registers", "none"] = option(
        "attention",
        "attention; GATConv or GINConv of DGL; registers: exact numbers instead of states; or "
        "none: only messages",
    )
    messages: Literal["none", "max", "sum", "max+sum"] = option(
        "none", "messages to aggregate beside attention: maximum, logarithm of the sum, or both"
    )
    step_loss: Literal["none", "mean", "second_half", "known", "weighted"] = option(
        "none",
        "train the answers after every step: the mean of all steps, of the second half, or of the "
        "steps from twice a node's depth on (known); or each step by its weight in the output "
        "(2107.05407); none: only the final answers",
    )
    change_penalty: float = option(
        0.0,
        "weight of a penalty on changes of states after the first step, so that nodes come to "
        "rest; it begins after 20% of the updates and has its full weight after 50%",
        least=0,
    )
    change_scale: float = option(
        0.1, "change of a state (RMS) for which the penalty is half of its maximum", least=1e-6
    )
    quantize: int = option(
        0,
        "round every state, after tanh, to multiples of 1 / quantize, so that nodes come to rest "
        "exactly; 0: continuous states",
        least=0,
    )
    quantize_noise: float = option(
        0.0, "standard deviation of noise before tanh in training, with quantize", least=0
    )
    initial_noise: float = option(
        0.0, "standard deviation of noise on the first shown states in training", least=0
    )
    depth_modulus: int = option(
        0, "auxiliary target in training: the depth of a node modulo this; 0: none", least=0
    )
    halting_loss: float = option(
        0.0,
        "weight of a loss that makes the halting probability the probability of a correct answer; "
        "best with --rule fixed and --evaluation-rule threshold",
        least=0,
    )
    halting_target: Literal["right", "stays_right"] = option(
        "right", "learn to halt when the answer is correct at this step, or also at all later ones"
    )

    def _check_values(self) -> None:
        super()._check_values()
        one = (self.num_kinds >= 1) != (self.num_feats >= 1)
        number = f"{0 if self.num_feats else 'positive'}, since num_feats is {self.num_feats}"
        self._check("num_kinds", one, number)
        fewest = 2 if self.answer_kind == "class" else 1
        if self.answer_at != "edge":
            self._check("classes", self.classes >= fewest, f"at least {fewest}")
        self._check_defaults(self.answer_at != "edge", "where edges answer", "answer_kind")
        reads_edges = not self.edge_feats or self.layer in ("attention", "registers")
        self._check("layer", reads_edges, "'attention' or 'registers' where edges have features")
        if self.layer == "registers":
            where = "where layer is 'registers'"
            self._check("adaptive", not self.adaptive, f"False {where}")
            self._check("answer_at", self.answer_at == "edge", f"'edge' {where}")
            self._check("num_kinds", self.num_kinds > 1, f"at least 2 {where}: starts and others")
            self._check("edge_feats", self.edge_feats <= 1, f"at most 1 {where}, the weight")
        unordered = ("max_offset", "transition")
        self._check_defaults(False, "in graphs, whose nodes are in no order", *unordered)
        where, attends = f"where layer is {self.layer!r}", self.layer == "attention"
        self._check_defaults(attends, where, "scale_by_degree", "symmetric_init")
        self._check_defaults(attends or self.layer == "gat", where, "attention_dropout")
        self._check_defaults(self.num_feats > 0, "where nodes have kinds", "input_dropout")
        self._check_defaults(attends or self.layer == "none", where, "messages")
        if self.layer == "none":
            self._check("messages", self.messages != "none", "'max' or 'sum' where layer is 'none'")
        self._check_training()

    def _check_training(self) -> None:
        self._check_defaults(self.step_loss != "none", "where step_loss is 'none'", "depth_modulus")
        runs_all = not self.adaptive or self.rule.startswith("fixed")
        every = "where nodes halt in training: adaptive is True and rule is not 'fixed'"
        late = self.step_loss in ("second_half", "known")
        self._check("step_loss", not late or runs_all, f"other than {self.step_loss!r} {every}")
        self._check_defaults(runs_all, every, "change_penalty")


@dataclass(frozen=True, kw_only=True)
class SearchOptions(CheckedConfig):
    """The options of a search; see `GenerativeModel.generate`."""

    max_length: int = option(100, "largest number of generated tokens, <eos> included", least=1)
    beam_size: int = option(1, "hypotheses that beam search keeps; 1 is greedy decoding", least=1)
    length_penalty: float = option(
        0.6, "length penalty of beam search; larger values favour long outputs", least=0
    )
    temperature: float | None = option(
        None, "sample tokens at this temperature, instead of taking the likeliest token"
    )
    generator: Any = None  # a `torch.Generator`, for sampling
    _owner: ClassVar[str] = "generate"  # in error messages

    def _check_values(self) -> None:
        positive = self.temperature is None or self.temperature > 0
        self._check("temperature", positive, "positive; omit it for greedy decoding")
        fits = self.beam_size == 1 or self.temperature is None
        self._check("beam_size", fits, "1 with sampling (temperature)")
