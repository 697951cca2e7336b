import pytest
import torch

from graphut.nn.layers import ByteDropout
from tests.helpers import normal, refuses


@pytest.mark.parametrize("p", [0.001, 0.2, 0.5, 0.999])
def test_byte_dropout_drops_its_share_and_keeps_the_mean(p: float) -> None:
    torch.manual_seed(0)
    x, drop = normal(999, 101).detach().abs(), ByteDropout(p)
    out = drop(x)
    share = min(max(1, round(256 * p)), 255) / 256
    assert float((out == 0).double().mean()) == pytest.approx(share, abs=0.01)
    assert torch.allclose(out[out > 0], x[out > 0] / (1 - share))
    torch.manual_seed(0)
    assert torch.equal(drop(x), out) and not torch.equal(drop(x), out)
    assert drop.eval()(x) is x and repr(drop) == f"ByteDropout(p={p:g})"


def test_byte_dropout_in_other_dtypes_and_out_of_range() -> None:
    assert ByteDropout(0.5)(torch.ones(7).bfloat16()).dtype == torch.bfloat16
    assert ByteDropout(0.0)(torch.ones(3)).tolist() == [1, 1, 1]
    refuses(r"must lie in \[0, 1\), got 1.0", ByteDropout, 1.0)
