"""FSDP2 (`fully_shard`) in two processes whose nodes take different numbers of steps."""

from pathlib import Path

from torch import Tensor, distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from graphut.nn import FixedDepth
from tests.experiments.training.together import run_together
from tests.helpers import assert_same, covering, refuses
from tests.nn.cases import HALTED, MODES, Case, build_case, engine

LENGTHS = [4, 1, 5], [2]  # of the sentences of each process: 7 to 9 steps in one, 3 in the other
ROOT = covering(
    halted=HALTED,
    norm=MODES["norm"],
    form=MODES["form"],
    transition=MODES["transition"],
    checkpoint_steps=(False, True),
)


def backward(case: Case) -> list[Tensor]:
    """Run a recurrence and its backward pass; return its results."""
    found = engine(case.layer, case.graph, case.feat, **case.arguments)
    (found[0].square().sum() + found[3]).backward()
    return list(found)


def assert_same_as_plain(modes: dict[str, object]) -> None:
    """Compare results, and gradients averaged over processes, with layers that are not sharded."""
    rank = distributed.get_rank()
    plain = [build_case(**modes, max_steps=9, lengths=own) for own in LENGTHS]
    sharded = build_case(**modes, max_steps=9, lengths=LENGTHS[rank])
    fully_shard(sharded.layer, mesh=init_device_mesh("cpu", (2,)))
    expected = [backward(case) for case in plain]
    assert expected[0][1].max() > expected[1][1].max()
    assert_same(backward(sharded), expected[rank])
    assert_same([sharded.feat.grad], [plain[rank].feat.grad])
    weights = zip(sharded.layer.parameters(), *(p.layer.parameters() for p in plain), strict=True)
    for weight, first, second in weights:
        assert_same([weight.grad.full_tensor()], [(first.grad + second.grad) / 2])


def test_recurrence_sharded_at_its_root_equals_the_plain_one(tmp_path: Path) -> None:
    def compare() -> None:
        for modes in ROOT:
            assert_same_as_plain(modes)

    run_together(compare, tmp_path)


def test_recurrence_refuses_sharded_parts(tmp_path: Path) -> None:
    def check() -> None:
        for name in ("step", "step.attention", "halting"):
            case = build_case(norm="pre", lengths=LENGTHS[distributed.get_rank()])
            fully_shard(case.layer.get_submodule(name), mesh=init_device_mesh("cpu", (2,)))
            words = "call fully_shard on the AdaptiveRecurrence, or on"
            refuses(words, case.layer, case.graph, case.feat)
            case.layer.rule = FixedDepth()
            refuses(words, case.layer, case.graph, case.feat)

    run_together(check, tmp_path)
