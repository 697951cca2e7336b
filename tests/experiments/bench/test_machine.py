from __future__ import annotations

from datetime import datetime

import torch

import graphut
from graphut.experiments.bench.machine import dated_machine, matmul

CPU = torch.device("cpu")


def test_versions_threads_and_the_date() -> None:
    found = dated_machine(CPU)
    assert found["graphut"] == graphut.__version__
    assert found["torch"] == torch.__version__
    assert found["threads"] == torch.get_num_threads()
    assert found["gpu"] is None and found["cpu"]
    assert datetime.fromisoformat(str(found["date"])).tzinfo is not None


def test_the_matrix_product_is_of_1024() -> None:
    product = matmul(CPU)()
    assert isinstance(product, torch.Tensor)
    assert product.shape == (1024, 1024) and product.dtype == torch.float32
