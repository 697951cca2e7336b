from __future__ import annotations

from inspect import signature

import torch

from graphut.experiments.generation_options import GenerationOptions
from graphut.models import UniversalTransformer


def test_generation_options_are_those_of_the_model() -> None:
    options = GenerationOptions().for_model()
    parameters = list(signature(UniversalTransformer.generate).parameters.values())[2:]
    assert {*options, "get_attention"} == {parameter.name for parameter in parameters}
    del options["generator"]
    assert options == {p.name: p.default for p in parameters if p.name in options}


def test_generation_options_seed_the_draws() -> None:
    first, again, other = (
        torch.rand(4, generator=GenerationOptions(seed=seed).for_model()["generator"])
        for seed in (1, 1, 2)
    )
    assert torch.equal(first, again) and not torch.equal(first, other)
