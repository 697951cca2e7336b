import torch

from graphut.experiments.cli.device import pick_device
from tests.helpers import refuses


def test_pick_device_takes_the_best_or_refuses_one_that_is_not_here() -> None:
    assert pick_device(None).type == ("cuda" if torch.cuda.is_available() else "cpu")
    refuses(r"there is no device 'cuda:99' here: .*$", pick_device, "cuda:99")
    refuses(r"there is no device 'abacus' here: .*$", pick_device, "abacus")
