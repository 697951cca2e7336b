from typing import Any

import pytest
import torch

from graphut.nn import Ponder
from tests.helpers import assert_same
from tests.models.cases import CASES


@pytest.mark.parametrize("name", CASES)
def test_outputs_are_the_same_with_attention(name: str) -> None:
    case = CASES[name]
    model = case.build(**({"encoder_topology": "star"} if name == "pairs" else {}))
    plain, looked = case.run(model), case.run(model, get_attention=True)
    assert_same([looked[0]], [plain[0].detach()])
    for before, after in zip(*(ponders_of(output) for output in (plain, looked)), strict=True):
        assert torch.equal(before.steps, after.steps)
        assert before.attention is before.cross_attention is before.halting is None
        assert after.attention is not None and len(after.halting) == int(after.steps.max())


def ponders_of(output: Any) -> list[Ponder]:
    return [part for part in output if isinstance(part, Ponder)]
