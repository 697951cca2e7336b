from __future__ import annotations

import torch

from graphut.nn.gpu.context import DeviceContext
from graphut.topology import Complete
from tests.helpers import assert_same, normal
from tests.nn.cases import build_step


def test_device_context_attends_to_the_nodes_of_the_graph_only() -> None:
    layout, layer, feat = Complete().layout([3]), build_step().attention, normal(3, 8)
    own = DeviceContext(layout)
    own.write(None, torch.cat([layer.project(feat), torch.full((1, 16), torch.nan)]))
    assert_same([own.attend(layer, feat)], [layer(layout, feat)])
    assert len(own.work.projections) == len(own.work.attended) == 1
