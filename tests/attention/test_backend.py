from typing import Any

import pytest
import torch

from graphut.attention import Backend
from graphut.attention.backend import AttentionCall, AttentionResult
from graphut.topology import Causal
from tests.helpers import refuses

X = torch.zeros(2, 1, 4)


def backend(**support: Any) -> Backend:
    return Backend(name="toy", attend=lambda call: AttentionResult(call.value), **support)


def fail() -> bool:
    raise AssertionError


def test_backend_can_do_what_its_record_says() -> None:
    call = AttentionCall(layout=Causal().layout([2]), query=X, key=X, value=X, need_weights=True)
    assert backend().can_do(call)
    assert backend(devices=("cpu",), dtypes=(torch.float32,)).can_do(call)
    assert not backend(devices=("cuda",)).can_do(call)
    assert not backend(dtypes=(torch.float64,)).can_do(call)
    assert not backend(returns_weights=False).can_do(call)
    assert not backend(is_installed=lambda: False).can_do(call)
    assert not backend(devices=("cuda",), is_installed=fail).can_do(call)  # which is asked last


def test_backend_check_names_the_dtypes_and_devices_that_it_takes() -> None:
    toy = backend(dtypes=(torch.float32, torch.float64, torch.bfloat16))
    toy.check(X.double())
    refuses(r"'toy' takes float32, float64 and bfloat16, got .*int8", toy.check, X.to(torch.int8))
    backend(devices=("cpu",)).check(X)
    with pytest.raises(ValueError, match="'toy' runs on cpu, but the features are on meta"):
        backend(devices=("cpu",)).check(X.to("meta"))
    backend(devices=("cpu",), checks_device=True).check(X.to("meta"))
