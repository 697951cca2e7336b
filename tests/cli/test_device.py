from __future__ import annotations

import pytest
import torch

from graphut.cli.device import pick_device


def test_the_best_device_is_taken_if_none_is_named() -> None:
    assert pick_device(None).type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("name", ["abacus", "cuda:99"])
def test_a_device_that_is_not_here(name: str) -> None:
    with pytest.raises(ValueError, match=f"there is no device '{name}' here"):
        pick_device(name)
