"""The configuration of the model of graphs, and options of restarts, which run a graph often."""

from dataclasses import dataclass
from typing import Literal

from graphut.models.checked_config import CheckedConfig, option
from graphut.models.config.base import ModelConfig
from graphut.topology import parse


@dataclass(frozen=True, kw_only=True)
class UniversalGraphTransformerConfig(ModelConfig):
    """The configuration of a `UniversalGraphTransformer`.

    A node has a kind, an integer, or features. In the help of inherited fields, a token is a node.
    """

    num_kinds: int = option(0, "kinds of nodes; 0 where nodes have features", least=0)
    num_feats: int = option(0, "features of a node; 0 where nodes have kinds", least=0)
    classes: int = option(0, "classes to choose from; 0 where edges answer")
    answer_at: Literal["node", "edge", "graph"] = option("node", "where the answers are")
    answer_kind: Literal["class", "labels", "values"] = option(
        "class", "kind of an answer: one class; several labels that apply or not; or values"
    )
    edge_feats: int = option(
        0,
        "features of an edge, including one for each type; attention reads them, or messages where "
        "layer is 'none'",
        least=0,
    )
    edge_types: str = option("", "names of the types of edges, separated by spaces")
    edge_weights: bool = option(False, "whether edges had weights in training")
    class_names: str = option("", "names of the classes, separated by spaces, for predictions")
    input_norm: bool = option(
        False, "put a LayerNorm after the linear map of the features, if nodes have features"
    )
    input_dropout: float = option(0.0, "dropout probability of the features of nodes")
    layer: Literal["attention", "gat", "gin", "registers", "none"] = option(
        "attention",
        "attention; GATConv or GINConv of DGL; registers: exact numbers in place of states; or "
        "none: only messages",
    )
    topology: str = option(
        "", "edges to add to those of the graph, such as 'complete' or 'expander:4@7'; '' for none"
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
    consistency: float = option(
        0.0,
        "weight of a loss that compares two passes with different dropout, also where labels are "
        "missing (2005.11079); for classes",
        least=0,
    )
    change_penalty: float = option(
        0.0,
        "weight of a penalty on changes of states after the first step, so that nodes come to "
        "rest; it begins after 20% of the updates and has its full weight after 50%",
        least=0,
    )
    change_scale: float = option(
        0.1, "root mean square change of a state for which the penalty is half of its maximum"
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
        reads_edges = not self.edge_feats or self.layer in ("attention", "none", "registers")
        self._check(
            "layer", reads_edges, "'attention', 'none' or 'registers' where edges have features"
        )
        if self.layer == "registers":
            where = "where layer is 'registers'"
            self._check("adaptive", not self.adaptive, f"False {where}")
            self._check("answer_at", self.answer_at == "edge", f"'edge' {where}")
            self._check("num_kinds", self.num_kinds > 1, f"at least 2 {where}: starts and others")
            self._check("edge_feats", self.edge_feats <= 1, f"at most 1 {where}, the weight")
            without = ("depth_modulus", "quantize", "initial_noise", "noise", "topology")
            self._check_defaults(False, where, *without)
        types = len(self.edge_types.split())
        enough = f"at least {types}, one for each of edge_types"
        self._check("edge_feats", self.edge_feats >= types, enough)
        named = len(self.class_names.split()) in (0, self.classes)
        self._check("class_names", named, f"empty or {self.classes} names")
        if self.topology:
            added = self._parsed("topology", parse)
            fits = self.answer_at != "edge" and not added.has_extra_nodes
            self._check("topology", fits, "one without extra nodes, or '' where edges answer")
        unordered = ("max_offset", "transition")
        self._check_defaults(False, "in graphs, whose nodes are in no order", *unordered)
        where, attends = f"where layer is {self.layer!r}", self.layer == "attention"
        unused = ("scale_by_degree", "symmetric_init", "attention_bias")
        self._check_defaults(attends, where, *unused)
        other = attends or self.position_signal != "relative"
        self._check("position_signal", other, f"other than 'relative' {where}")
        self._check_defaults(attends or self.layer == "gat", where, "attention_dropout")
        self._check("input_dropout", 0 <= self.input_dropout < 1, "in [0, 1)")
        self._check_defaults(self.num_feats > 0, "where nodes have kinds", "input_dropout")
        of_classes = self.answer_kind == "class" and self.answer_at != "edge"
        self._check_defaults(of_classes, "where classes are not asked", "consistency")
        if self.layer == "none":
            self._check("messages", self.messages != "none", "'max' or 'sum' where layer is 'none'")
        else:
            self._check_defaults(attends, where, "messages")
        self._check_training()

    def _check_training(self) -> None:
        self._check("change_scale", self.change_scale > 0, "positive")
        self._check_defaults(self.quantize > 0, "where quantize is 0", "quantize_noise")
        first = self.noise > 0 and self.noise_on == "first"
        self._check_defaults(not first, "where noise_on is 'first'", "initial_noise")
        self._check("depth_modulus", self.depth_modulus != 1, "0 or at least 2")
        self._check_defaults(self.step_loss != "none", "where step_loss is 'none'", "depth_modulus")
        runs_all = not self.adaptive or self.rule.startswith("fixed")
        every = "where nodes halt in training: adaptive is True and rule is not 'fixed'"
        late = self.step_loss in ("second_half", "known")
        self._check("step_loss", not late or runs_all, f"other than {self.step_loss!r} {every}")
        self._check_defaults(runs_all, every, "change_penalty")


@dataclass(frozen=True, kw_only=True)
class Restarts(CheckedConfig):
    """Run disjoint copies of each graph with the rule `EventDriven`, and join their answers.

    The first copy starts as usual. The shown states of the other copies get Gaussian noise before
    each of the first `restart_rounds` rounds, in which all their nodes compute. The noise is a
    function of the seed, of the round, of the copy, and of the node's place in its graph. Injected
    states get none.

    With `restart_keep="mean"`, the copies that come to rest count; if no copy of a graph does, all
    count. The probability of an answer is its mean over the copies that count. With "surest" all
    copies count, and all answers of a graph are those of one copy: the one whose answers have the
    largest product of probabilities, over all nodes.

    The agreement of an answer is the share of the copies that count and give the same answer alone.
    An answer with an agreement below 1 is in doubt. With "mean" the noise must be small if the
    answers depend on the first states. With one copy, the result is the usual one.
    """

    restarts: int = option(1, "copies of each graph, all but the first from noisy states", least=1)
    restart_noise: float = option(0.1, "standard deviation of the noise of restarts", least=0)
    restart_rounds: int = option(1, "first rounds that get noise, anew in each", least=1)
    restart_seed: int = option(0, "seed of the noise of restarts", least=0)
    restart_keep: Literal["mean", "surest"] = option(
        "mean", "answers of restarts: means, or those of the copy that is surest of all its answers"
    )

    def _check_values(self) -> None:
        self._check("restart_seed", self.restart_seed < 2**63, "at least 0 and below 2**63")
        others = "restart_noise", "restart_rounds", "restart_seed", "restart_keep"
        self._check_defaults(self.restarts > 1, "if restarts is 1", *others)
