from __future__ import annotations

from typing import Any

import pytest
import torch

from graphut.attention import Backend
from graphut.attention.backend import AttentionResult
from graphut.attention.call import AttentionCall
from graphut.topology import Causal

X = torch.zeros(2, 1, 4)


def call(**options: Any) -> AttentionCall:
    given: dict[str, Any] = {"query": X, "key": X, "value": X, **options}
    return AttentionCall(layout=Causal().layout([2]), **given)


def backend(**support: Any) -> Backend:
    return Backend(name="toy", attend=lambda call: AttentionResult(call.value), **support)


def test_backend_can_do_every_call_unless_its_record_says_otherwise() -> None:
    assert backend().can_do(call(need_weights=True, dropout=0.5))


@pytest.mark.parametrize(
    ("support", "able"),
    [
        ({"devices": ("cpu",)}, True),
        ({"devices": ("cuda",)}, False),
        ({"dtypes": (torch.float32,)}, True),
        ({"dtypes": (torch.float64,)}, False),
        ({"returns_weights": False}, False),
        ({"is_installed": lambda: False}, False),
    ],
)
def test_backend_can_do_what_its_record_says(support: dict[str, Any], able: bool) -> None:
    assert backend(**support).can_do(call(need_weights=True)) is able


def test_backend_is_asked_last_whether_it_is_installed() -> None:
    def fail() -> bool:
        raise AssertionError

    assert not backend(devices=("cuda",), is_installed=fail).can_do(call())


def test_backend_check_names_the_dtypes_that_it_takes() -> None:
    toy = backend(dtypes=(torch.float32, torch.float64, torch.bfloat16))
    toy.check(X.double())
    with pytest.raises(TypeError, match=r"'toy' takes float32, float64 and bfloat16, got .*int8"):
        toy.check(X.to(torch.int8))


def test_backend_check_names_the_devices_that_it_runs_on() -> None:
    backend(devices=("cpu",)).check(X)
    with pytest.raises(ValueError, match="'toy' runs on cpu, but the features are on meta"):
        backend(devices=("cpu",)).check(X.to("meta"))
    backend(devices=("cpu",), checks_device=True).check(X.to("meta"))
