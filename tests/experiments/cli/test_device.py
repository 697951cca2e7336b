from __future__ import annotations

import pytest
import torch

from graphut.experiments.cli.device import pick_device


def test_pick_device_takes_the_best_if_none_is_named() -> None:
    assert pick_device(None).type == ("cuda" if torch.cuda.is_available() else "cpu")


def test_pick_device_refuses_one_that_is_not_here() -> None:
    with pytest.raises(ValueError, match=r"there is no device 'cuda:99' here: .*$"):
        pick_device("cuda:99")
