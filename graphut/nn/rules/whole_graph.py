"""Halting of whole graphs: all nodes of a graph halt together."""

from dataclasses import dataclass, replace
from typing import ClassVar

from graphut._torch import Tensor, torch
from graphut.nn.rules.base import (
    ACT,
    BatchIndex,
    Decision,
    HaltingRule,
    Memory,
    StepRows,
    parse_rule,
)
from graphut.nn.rules.change import EventDriven


@dataclass(frozen=True)
class Global(HaltingRule):
    """Halt all nodes of a graph in the same step, by means over the graph.

    The inner rule, `rule`, decides from the mean halting probability of the graph; `Convergence`
    decides from the mean change of the states. This is `act_type="global"` of tensor2tensor;
    IterGNN (arXiv 2010.13547) halts whole graphs too. Graphs are those of
    the DGL batch or of the layout. A causal decoder cannot use the rule, because a token's number
    of steps would depend on later tokens.

    Examples
    --------
    >>> from graphut.nn.rules.change import Convergence
    >>> Global(Convergence(tol=0.1)).spec()
    'global:convergence:tol=0.1'
    """

    name: ClassVar[str] = "global"
    needs_members: ClassVar[bool] = True
    fits_decoders: ClassVar[bool] = False
    rule: HaltingRule = ACT()  # noqa: RUF009, a frozen value

    def __post_init__(self) -> None:
        if isinstance(self.rule, Global) or not isinstance(self.rule, HaltingRule):
            raise ValueError(f"Global needs an inner rule such as ACT(), no Global: {self.rule!r}")
        if isinstance(self.rule, EventDriven):
            raise ValueError("Global cannot contain EventDriven, whose nodes wake one by one")
        for name in ("weighting", "halt_from", "uses_probability", "min_steps"):
            object.__setattr__(self, name, getattr(self.rule, name))

    def start(self, rows: Tensor, members: BatchIndex | None) -> Memory:
        assert members is not None
        return members.graph, members.num_graphs, *self.rule.start(rows, members)

    def measure(self, memory: Memory, rows: StepRows) -> Tensor:
        graph, num_graphs, *inner = memory
        by_node = self.rule.measure(tuple(inner), rows)
        terms = torch.stack([by_node, torch.ones_like(by_node)])
        totals = by_node.new_zeros(2, num_graphs).index_add(1, graph, terms)
        sums, counts = totals if rows.all_reduce is None else rows.all_reduce(totals)
        return (sums / counts.clamp_min(1.0)).index_select(0, graph)

    def decide(self, memory: Memory, measure: Tensor, rows: StepRows) -> tuple[Decision, Memory]:
        decision, inner = self.rule.decide(memory[2:], measure, rows)
        return decision, (*memory[:2], *inner)

    def for_evaluation(self) -> HaltingRule:
        return replace(self, rule=self.rule.for_evaluation())

    def spec(self) -> str:
        return f"{self.name}:{self.rule.spec()}"

    @classmethod
    def from_settings(cls, text: str) -> HaltingRule:
        if text.partition(":")[0] == cls.name:  # before the inner texts are parsed one by one
            raise ValueError("a rule 'global' cannot contain another 'global'")
        return cls(parse_rule(text)) if text else cls()
