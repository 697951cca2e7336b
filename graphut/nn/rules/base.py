"""Halting rules: their base class, fixed depth and ACT, and the state of a rule in a call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

from graphut._torch import Tensor, torch

if TYPE_CHECKING:
    from graphut.attention import EdgeLayout

Memory: TypeAlias = tuple[Any, ...]

_SCALARS = (bool, int, float, str)
RULES: dict[str, type[HaltingRule]] = {}
"""A dictionary from the names that `parse_rule` reads to the classes of rules."""


class BatchIndex(NamedTuple):
    """The graph of each node of a batch."""

    graph: Tensor  #: (N,) int64, the graph of each node
    num_graphs: int  #: every id in `graph` is below it


def batch_index(layout: EdgeLayout) -> BatchIndex:
    """Return the graph of each destination node as a `BatchIndex`."""
    lengths = layout.dst_lengths
    graph = torch.arange(len(lengths)).repeat_interleave(lengths)
    return BatchIndex(graph.to(layout.device), len(lengths))


class StepRows(NamedTuple):
    """States and probabilities of the `A` active nodes after a step, which a rule reads."""

    before: Tensor  #: (A, d) input of the step, with signals
    after: Tensor  #: (A, d) new states
    probability: Tensor | None  #: (A,) halting probability; None if the rule does not read it
    step: int  #: the step, from 1
    is_last: bool  #: True in step `max_steps`, when all nodes halt
    #: sums a tensor over processes, if each has a part of the graph
    all_reduce: Callable[[Tensor], Tensor] | None = None


class Decision(NamedTuple):
    """The decision of a halting rule after a step: tensors with an entry for each active node."""

    halts: Tensor  #: (A,) bool, True for rows that halt now
    weight: Tensor | None = None  #: of the new states in the output, unless `weighting` is "last"
    remainder: Tensor | None = None  #: `R` of rows that halt now; zero by default
    cost: Tensor | None = None  #: ponder cost of rows that halt now; zero by default


@dataclass(frozen=True)
class HaltingRule(ABC):
    """Base class of halting rules, which are frozen dataclasses without learned parameters.

    A subclass defines `decide`. It also defines `num_sums` or `start` if it has a memory, a tuple
    of values that `decide` updates in each step. A rule decides about the active nodes; what it
    returns for halted nodes is ignored. In step `max_steps` every node halts, whatever the rule
    decides. A rule with a `name` can be used in `parse_rule` and in the configurations of models.

    Most rules have a setting `halt_from`, "input" or "output": the halting module reads the state
    before or after the step.

    Examples
    --------
    >>> from graphut.nn import AdaptiveRecurrence, HaltingUnit, MultiHeadAttention
    >>> from graphut.nn import PositionwiseTransition, UniversalTransformerStep
    >>> from graphut.topology import Complete
    >>> @dataclass(frozen=True)
    ... class Waiting(HaltingRule):
    ...     least: int = 2
    ...     def decide(self, memory, measure, rows):
    ...         return Decision(halts=(measure > 0.5) & (rows.step >= self.least)), memory
    >>> step = UniversalTransformerStep(MultiHeadAttention(8, 2), PositionwiseTransition(8, 32))
    >>> unit = HaltingUnit(8, gain=0.0, bias_init=1.0)
    >>> layer = AdaptiveRecurrence(step, unit, rule=Waiting(), max_steps=6)
    >>> layer(Complete().graph([3]), torch.randn(3, 8))[1].steps
    tensor([2, 2, 2])
    """

    name: ClassVar[str] = ""
    uses_probability: ClassVar[bool] = True  #: True if it needs a halting module
    needs_members: ClassVar[bool] = False  #: True if `start` needs the graphs of the nodes
    fits_decoders: ClassVar[bool] = True  #: False unless nodes halt one by one and for good
    num_sums: ClassVar[int] = 0  #: number of sums in the memory, `(A,)` in float32 or wider, from 0
    # Not annotated, so that a rule can have them as fields.
    #: with 0, a node may halt before its first step, by the probability of its first state
    min_steps = 1
    #: "sum" (out += w x), "ema" (out = w x + (1 - w) out), "last" (the last state) or "ap-gcn"
    weighting = "last"
    halt_from = "input"

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):
            RULES[cls.name] = cls

    def __post_init__(self) -> None:
        self.check_one_of("halt_from", "input", "output")

    def start(self, rows: Tensor, members: BatchIndex | None) -> Memory:
        """Return the rule's memory, a tuple, for nodes with initial states `rows`, `(A, d)`.

        When nodes halt, their rows are removed from all tensors, `(A, ...)`, in the tuple; other
        values stay. `members` holds the graph of each node, for a rule with `needs_members`.
        """
        if not self.num_sums:
            return ()
        wide = torch.promote_types(rows.dtype, torch.float32)
        return (rows.new_zeros(rows.shape[0], dtype=wide),) * self.num_sums

    def measure(self, memory: Memory, rows: StepRows) -> Tensor:
        """Return the values, `(A,)`, that `decide` reads; by default the halting probabilities."""
        assert rows.probability is not None
        return rows.probability

    @abstractmethod
    def decide(self, memory: Memory, measure: Tensor, rows: StepRows) -> tuple[Decision, Memory]:
        """Return the decision and the new memory; `measure` is the result of `self.measure`."""

    def for_evaluation(self) -> HaltingRule:
        """Return the rule to use in evaluation after training with this rule."""
        return self

    def spec(self) -> str:
        """Return the rule as a string for `parse_rule`, with its settings that are not defaults."""
        settings = ((field, getattr(self, field.name)) for field in fields(self))
        changed = {field.name: value for field, value in settings if value != field.default}
        if not self.name or not all(isinstance(x, _SCALARS) for x in changed.values()):
            raise ValueError(f"{self} cannot be written as text in the file of a configuration")
        texts = (
            f"{name}={str(value).lower() if isinstance(value, bool) else value}"
            for name, value in changed.items()
        )
        return self.name + ":" * bool(changed) + ",".join(texts)

    @classmethod
    def from_settings(cls, text: str) -> HaltingRule:
        """Return a rule of this class with settings such as `threshold=0.9,weighting=last`."""
        defaults = {f.name: f.default for f in fields(cls) if isinstance(f.default, _SCALARS)}
        settings: dict[str, Any] = {}
        for part in text.split(",") if text else []:
            name, _, value = part.partition("=")
            if name not in defaults:
                names = ", ".join(defaults) or "none"
                raise ValueError(f"{cls.name!r} has no setting {name!r}; its settings: {names}")
            if name in settings:
                raise ValueError(f"{cls.name!r} has the setting {name!r} twice: give it once")
            kind: Any = type(defaults[name])
            read: Any = {"true": True, "false": False}.__getitem__ if kind is bool else kind
            try:
                settings[name] = read(value)
            except (KeyError, ValueError):
                what = {bool: "true or false", int: "a whole number"}.get(kind, "a number")
                raise ValueError(f"{name} of {cls.name!r} must be {what}, got {value!r}") from None
        return cls(**settings)

    def check(self, name: str, is_valid: bool, wanted: str) -> None:
        """Raise a `ValueError` that says "`name` must `wanted`", unless `is_valid` is true."""
        if not is_valid:
            raise ValueError(f"{name} must {wanted}, got {getattr(self, name)!r}")

    def check_one_of(self, name: str, *known: str) -> None:
        """Raise a `ValueError` unless the setting `name` has one of the values `known`."""
        self.check(name, getattr(self, name) in known, f"be one of {', '.join(map(repr, known))}")

    def check_share(self, name: str) -> None:
        """Raise a `ValueError` unless the setting `name` is in `(0, 1]`."""
        self.check(name, 0.0 < getattr(self, name) <= 1.0, "lie in (0, 1]")


@dataclass(frozen=True)
class FixedDepth(HaltingRule):
    """Let every node take `max_steps` steps; the output is the last state.

    With a halting module, `get_steps=True` returns halting probabilities too, so that the module
    can be trained for another rule.

    Examples
    --------
    >>> FixedDepth(halt_from="output").spec()
    'fixed:halt_from=output'
    """

    name: ClassVar[str] = "fixed"
    uses_probability: ClassVar[bool] = False
    halt_from: str = "input"

    def measure(self, memory: Memory, rows: StepRows) -> Tensor:
        return rows.after.new_zeros(rows.after.shape[0])

    def decide(self, memory: Memory, measure: Tensor, rows: StepRows) -> tuple[Decision, Memory]:
        return Decision(measure > 0), memory


@dataclass(frozen=True)
class ACT(HaltingRule):
    r"""Halt when the halting probabilities sum to `threshold`.

    From arXiv 1603.08983, Eqs. 6 to 13. The weight of a state is its probability, and the weight of
    the last state is the remainder :math:`R`, 1 minus the sum of the earlier ones.

    Parameters
    ----------
    threshold : float
        Sum of probabilities at which a node halts, in `(0, 1]`.
    weighting : {"sum", "ema", "last", "ap-gcn"}
        The output of a node: the weighted sum of its states; an exponential moving average of them,
        as in tensor2tensor; its state at halting; or "ap-gcn", the mean over its steps of
        :math:`p_t x_t + (1 - p_t) x_{t-1}` (arXiv 2002.10306). In the code of that paper,
        :math:`p_t` is the sum of the probabilities so far, or at halting the remainder, and the
        mean of a node that only `max_steps` stops is divided by one step more.
    forced_remainder : bool
        Give the last state the remainder also if the node halts only because of `max_steps`.
    cost : {"steps+remainder", "remainder"}
        The ponder cost of a node: its number of steps plus :math:`R`, or :math:`R`.
    min_steps : {0, 1}
        With 0, the first state counts like the state of a step 0: it has a halting probability and
        a weight, and a node may halt there, with 0 steps.

    Examples
    --------
    >>> ACT(threshold=0.9).spec()
    'act:threshold=0.9'
    """

    name: ClassVar[str] = "act"
    num_sums: ClassVar[int] = 1  # of the probabilities
    threshold: float = 0.99
    halt_from: str = "input"
    weighting: str = "sum"
    forced_remainder: bool = True
    cost: str = "steps+remainder"
    min_steps: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_share("threshold")
        self.check_one_of("weighting", "sum", "ema", "last", "ap-gcn")
        self.check_one_of("cost", "steps+remainder", "remainder")
        self.check("min_steps", self.min_steps in (0, 1), "be 0 or 1")
        if self.weighting == "ap-gcn":
            self.check("min_steps", self.min_steps == 1, "be 1 with weighting='ap-gcn'")

    def decide(self, memory: Memory, measure: Tensor, rows: StepRows) -> tuple[Decision, Memory]:
        (spent,) = memory
        total, remainder = spent + measure, torch.rsub(spent, 1.0)
        reached = total >= self.threshold
        weight = torch.where(reached, remainder, measure)
        if rows.is_last and self.forced_remainder:
            # In a single step, halting units get the gradient 0: DistributedDataParallel needs one.
            weight = remainder if rows.step > 1 else remainder + 0.0 * measure
        elif rows.is_last:
            remainder = remainder.masked_fill(~reached, 0.0)
        if self.weighting == "ap-gcn":
            weight = torch.where(reached, 1.0 - spent, 1.0 - total if rows.is_last else total)
        cost = remainder if self.cost == "remainder" else remainder + rows.step
        return Decision(reached, weight, remainder, cost), (total,)


def states_read(rules: Iterable[HaltingRule]) -> set[str]:
    """Return the values of `halt_from` in rules whose halting module is used or trained."""
    return {r.halt_from for r in rules if r.uses_probability or isinstance(r, FixedDepth)}


def parse_rule(spec: str) -> HaltingRule:
    """Return the rule that a string describes by name and by settings that are not defaults.

    Raise `ValueError` if the rule or a setting is unknown, or a value is wrong.

    Examples
    --------
    >>> parse_rule("act:threshold=0.9,weighting=last").threshold
    0.9
    """
    name, _, settings = spec.partition(":")
    if name not in RULES:
        import_module("graphut.nn.rules.whole_graph")  # adds its rule; few calls need it
    if name not in RULES:
        raise ValueError(
            f"there is no halting rule {name!r}; choose one of: {', '.join(RULES)} (import the "
            "module of your own rule first: --import MODULE)"
        )
    return RULES[name].from_settings(settings)


class RuleState:
    """The memory of a rule for the active nodes, their outputs so far, and the last decision."""

    def __init__(self, rule: HaltingRule, rows: Tensor, members: BatchIndex | None = None) -> None:
        self.rule = rule
        self.memory = rule.start(rows, members)
        self.out = torch.zeros_like(rows)  # (A, d) outputs so far, as `rule.weighting` says
        # (A,) of the last decision: weight of the state, and `R` and cost of rows that halt
        self.weight: Tensor
        self.remainder: Tensor
        self.cost: Tensor
        self.chosen: Tensor  # (A,) bool, rows that the rule itself halts in the last decision

    def update(self, rows: StepRows, active: Tensor | None = None) -> Tensor:
        """Let the rule decide after a step; return which of the active nodes halt, `(A,)` bool."""
        rule, states = self.rule, rows.after
        decision, self.memory = rule.decide(self.memory, rule.measure(self.memory, rows), rows)
        halts, weight, remainder, cost = decision
        if halts.shape != states.shape[:1] or halts.dtype != torch.bool:
            raise ValueError(
                f"{type(rule).__name__}.decide must return halts as ({len(states)},) bools, one "
                f"for each row; got {tuple(halts.shape)} of {halts.dtype}"
            )
        self.chosen = halts
        if rows.is_last:
            halts = torch.ones_like(halts)
        if active is not None:
            halts = halts & active
        if weight is None or rule.weighting == "last":
            weight = halts.to(torch.promote_types(states.dtype, torch.float32))
        elif active is not None:
            weight = weight.masked_fill(~active, 0.0)
        self.weight = weight
        self.remainder = torch.zeros_like(weight) if remainder is None else remainder
        self.cost = torch.zeros_like(weight) if cost is None else cost
        factor = weight.to(states.dtype).unsqueeze(1)
        if rule.weighting == "sum":
            self.out = torch.addcmul(self.out, factor, states)
        elif rule.weighting == "ap-gcn":
            mean = self.out + torch.lerp(rows.before, states, factor)
            divisor = (rows.step + (~self.chosen).to(mean.dtype)).unsqueeze(1)
            mean = torch.where(halts[:, None], mean / divisor, mean)
            self.out = mean if active is None else torch.where(active[:, None], mean, self.out)
        elif rule.weighting == "ema":
            self.out = torch.lerp(self.out.to(states.dtype), states, factor)
        elif active is None:
            self.out = states
        else:
            self.out = torch.where(active[:, None], states, self.out)
        return halts

    def keep(self, rows: Tensor) -> None:
        """Keep memory and outputs only of the active nodes with the indices `rows`."""
        self.memory = tuple(
            x.index_select(0, rows) if isinstance(x, torch.Tensor) else x for x in self.memory
        )
        self.out = self.out.index_select(0, rows)
