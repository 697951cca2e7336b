import pytest

from graphut.nn import ACT, Convergence, Global, HaltingRule, PonderNet
from graphut.topology import Complete
from tests.helpers import assert_same, refuses
from tests.nn.cases import build_case, engine

RULES = [ACT(), PonderNet(threshold=0.8), PonderNet().for_evaluation(), Convergence(0.45)]


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_global_the_nodes_of_a_graph_halt_together(rule: HaltingRule) -> None:
    case = build_case(rule=Global(rule), lengths=[4, 1, 5, 3, 4, 2], max_steps=7)
    steps = engine(case.layer, case.graph, case.feat, **case.arguments)[1]
    by_graph = steps.split(case.graph.dst_lengths.tolist())
    assert all(len(own.unique()) == 1 for own in by_graph) and len(steps.unique()) > 1


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_global_of_graphs_of_one_node_is_the_other_rule(rule: HaltingRule) -> None:
    alone, both = (build_case(rule=r, lengths=[1] * 6) for r in (rule, Global(rule)))
    assert_same(both.run(engine), alone.run(engine))


def test_global_graphs_are_those_of_the_batch() -> None:
    case = build_case(rule=Global(), lengths=[4, 5])
    batched = engine(case.layer, Complete().graph([4, 5]), case.feat, **case.arguments)
    assert_same(engine(case.layer, case.graph, case.feat, **case.arguments), batched)


def test_global_weights_and_reads_as_the_other_rule() -> None:
    rule = Global(ACT(weighting="ema", halt_from="output"))
    assert (rule.weighting, rule.halt_from, rule.uses_probability) == ("ema", "output", True)
    assert not Global(Convergence()).uses_probability
    case = build_case(rule=Global(ACT(min_steps=0)), lengths=[4, 5])
    case.layer.halting.linear.bias.data.fill_(20.0)
    assert not case.layer(case.graph, case.feat)[1].steps.any()
    refuses("Global needs an inner rule such as ACT.., no Global: 'act'", Global, "act")
    refuses("Global needs an inner rule such as ACT.., no Global: Global", Global, rule)
    assert Global(PonderNet()).for_evaluation() == Global(PonderNet().for_evaluation())
    assert rule.for_evaluation() == rule and hash(rule) == hash(Global(rule.rule))
