import pytest
import torch
from torch import Tensor

from graphut.nn import AdaptiveRecurrence, InputNoise, Quantized
from graphut.nn.noise import PLACES
from tests.helpers import assert_same, refuses
from tests.nn.cases import build_case, build_step, engine


@pytest.mark.parametrize("on", PLACES)
def test_noise_acts_in_training_alone(on: str) -> None:
    case = build_case(noise=on, inject_input=True)
    noisy = case.run(engine)[0]
    case.layer.eval()
    found, state = case.run(engine), torch.get_rng_state()
    case.layer.noise = None
    assert_same(found, case.run(engine), tolerance=0.0)
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.allclose(found[0], noisy, atol=1e-3)


def test_noise_is_a_function_of_seed_node_and_step() -> None:
    rows = torch.zeros(300, 16)
    torch.manual_seed(0)
    noise = InputNoise(1.0).draw()
    torch.manual_seed(0)
    again = InputNoise(1.0).draw()
    whole = noise.add(rows, step=3)
    some = torch.tensor([2, 3, 5, 299])
    assert torch.equal(again.add(rows[some], some, 3), whole[some])
    for other in (noise.add(rows, step=4), InputNoise(1.0).draw().add(rows, step=3)):
        assert correlation(whole, other) < 0.05
    assert correlation(whole[1:], whole[:-1]) < 0.05
    assert correlation(whole[:, 1:], whole[:, :-1]) < 0.05


def correlation(one: Tensor, other: Tensor) -> float:
    return float(torch.corrcoef(torch.stack([one.flatten(), other.flatten()]))[0, 1].abs())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_noise_is_normal(dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    rows = InputNoise(0.3).draw().add(torch.zeros(4000, 32, dtype=dtype))
    assert rows.dtype == dtype
    values = rows.double().flatten() / 0.3
    assert abs(float(values.mean())) < 0.01 and abs(float(values.std()) - 1) < 0.01
    chances = torch.tensor([0.01, 0.1, 0.5, 0.9, 0.99], dtype=torch.float64)
    assert (values.quantile(chances) - torch.special.ndtri(chances)).abs().max() < 0.03


def test_noise_refuses_wrong_values() -> None:
    for std in (-0.1, float("nan"), float("inf")):
        refuses(f"std must be 0 or more and finite, got {std}", InputNoise, std)
    refuses("'first', 'every_step'; got 'last'", InputNoise, 0.1, "last")
    with pytest.raises(ValueError, match="noise on 'every_step' states needs inject_input=True"):
        AdaptiveRecurrence(build_step(), noise=InputNoise(0.1, "every_step"))
    with pytest.raises(ValueError, match="noise is given twice for one place: first, first"):
        AdaptiveRecurrence(build_step(), noise=(InputNoise(0.1), InputNoise(0.2)))


def test_quantized_refuses_wrong_values() -> None:
    for levels in (0, 1.5):
        refuses(f"a whole number, at least 1; got {levels}", Quantized, levels)
    for noise in (-1.0, float("nan")):
        refuses(f"noise must be 0 or more and finite, got {noise}", Quantized, noise=noise)
