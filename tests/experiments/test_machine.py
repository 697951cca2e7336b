import torch

import graphut
from graphut.experiments.machine import describe_machine

CPU = torch.device("cpu")


def test_describe_machine_has_versions_and_threads() -> None:
    found = describe_machine(CPU)
    assert found["graphut"] == graphut.__version__
    assert found["torch"] == torch.__version__
    assert found["threads"] == torch.get_num_threads()
    assert found["gpu"] is None and found["cpu"]
