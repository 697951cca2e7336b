from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

from tests.gpu_stand_in import UNTIL_IT_ARRIVES, StandIn, gpu_stand_in

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


@pytest.fixture
def gpu() -> Iterator[StandIn]:
    with gpu_stand_in() as gpu:
        yield gpu


def there(*numbers: float) -> Tensor:
    return torch.tensor(numbers).to("cuda")


@pytest.mark.parametrize(
    ("function", "launches", "waits"),
    [
        (lambda x: (x + 1).sum(), 2, 0),
        (lambda x: (x + 1).sum().item(), 2, 1),
        (lambda x: bool((x > 0).any()), 2, 1),
        (lambda x: x.view(3, 1).T[:, 1:].unsqueeze(0).expand(2, 1, 2), 0, 0),
        (lambda x: x.new_empty(4, 5), 0, 0),
        (lambda x: torch.zeros(4, device=x.device), 1, 0),
        (lambda x: x.masked_fill(x > 0, 0.0), 3, 0),
        (lambda x: x[x > 0], 2, 1),
        (lambda x: x.nonzero(), 1, 1),
        (lambda x: x.tolist(), 0, 1),
        (lambda x: x.cpu(), 0, 1),
        (lambda x: x.double().to("cpu"), 1, 1),
        (lambda x: torch.equal(x, x), 1, 1),
        (lambda x: torch.tensor([1.0], device=x.device), 0, 1),
        (lambda x: torch.ones(3).to(x.device, non_blocking=True), 0, 1),
        (lambda x: torch.ones(3).pin_memory().to(x.device, non_blocking=True), 0, 0),
        (lambda x: x.add_(1).mul_(2), 2, 0),
        (lambda x: nn.Dropout(0.5)(x), 1, 0),
    ],
)
def test_gpu_counts_launches_and_waits(
    gpu: StandIn, function: Callable[[Tensor], object], launches: int, waits: int
) -> None:
    x = there(1.0, -2.0, 3.0)
    gpu.clear()
    function(x)
    assert (len(gpu.launches), len(gpu.waits)) == (launches, waits)


def test_gpu_a_copy_is_there_when_its_event_is() -> None:
    answers = iter([False, True])
    with gpu_stand_in(arrives=lambda: next(answers)) as gpu:
        host = torch.empty(2, pin_memory=True)
        host.copy_(there(1.0, 2.0), non_blocking=True)
        event = torch.cuda.current_stream("cuda").record_event()
        gpu.clear()
        assert not event.query() and host.tolist() == [UNTIL_IT_ARRIVES] * 2
        assert event.query() and host.tolist() == [1, 2]
        event.synchronize()
        assert not gpu.waits
