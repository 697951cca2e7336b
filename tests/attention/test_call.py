from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from graphut.attention.call import AttentionCall
from tests.helpers import layout_of

# Edge ids 0 to 3; by destination they are 1, 2 | 0, 3.
LAYOUT = layout_of([(0, 1), (0, 0), (1, 0), (1, 1)], 2, 2)
X = torch.zeros(2, 3, 4)
CALL = AttentionCall(layout=LAYOUT, query=X, key=X, value=X, seed=5)


@pytest.mark.parametrize("given", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_attention_call_score_dtype_is_float32_or_wider(given: torch.dtype) -> None:
    call = replace(CALL, query=X.to(given), edge_bias=torch.zeros(4, 1, dtype=given))
    wide = torch.float64 if given == torch.float64 else torch.float32
    assert (call.score_dtype, call.bias().dtype) == (wide, wide)
