import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphut.experiments.cli.options import build
from graphut.experiments.cli.task_options import read_options
from graphut.experiments.report import Setup, option_words
from graphut.experiments.tasks import preset_of
from graphut.experiments.tasks.algorithmic import AlgorithmicCopy
from graphut.experiments.training import TrainingConfig
from graphut.models import UniversalTransformerConfig
from tests.experiments.conftest import TINY_PRESETS

SIZES = {"source_vocab": 28, "target_vocab": 28}
PRESETS_OF_COPY = TINY_PRESETS["algorithmic-copy"]


def options_of(command: str) -> dict[str, Any]:
    """All options that a command line gives a run of the task, as `graphut train` reads them."""
    graphut, train, task, *argv = shlex.split(command)
    assert (graphut, train) == ("graphut", "train")
    given = read_options("train", [task, *argv])
    options = {**preset_of(task, given.preset), **vars(given)}
    training = build(TrainingConfig, options)
    config = build(UniversalTransformerConfig, options, **SIZES)
    values = {**vars(build(AlgorithmicCopy, options)), **vars(training), **config.to_dict()}
    return {name: value for name, value in values.items() if name not in SIZES}


@given(
    preset=st.sampled_from([*PRESETS_OF_COPY]),
    options=st.fixed_dictionaries(
        {},
        optional={
            "seed": st.integers(0, 9),
            "max_steps": st.integers(1, 9),
            "learning_rate": st.floats(1e-5, 1.0),
            "adaptive": st.just(False),
            "encoder_topology": st.sampled_from(["complete", "window:3|global:0"]),
            "norm": st.sampled_from(["pre", "post"]),
            "epoch_size": st.integers(1, 9),
        },
    ),
)
def test_setup_command_has_every_option(preset: str, options: dict[str, Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AlgorithmicCopy, "presets", PRESETS_OF_COPY)
        asked = ["graphut", "train", "algorithmic-copy", "--out", "RUN", "--preset", preset]
        values = options_of(shlex.join([*asked, *option_words(options)]))
        found = Setup.of("algorithmic-copy", values)
        assert options_of(found.command()) == values
        assert len(found.options) <= len(options)


def test_setup_of_a_run_older_than_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    values = options_of("graphut train algorithmic-copy --out RUN --preset small")
    del values["halting_gain"]
    preset = {**AlgorithmicCopy.presets["small"], "halting_gain": 0.0}
    monkeypatch.setattr(AlgorithmicCopy, "presets", {"small": preset})
    assert Setup.of("algorithmic-copy", values).options == {"halting_gain": 1.0}


def test_setup_of_names_the_nearest_preset() -> None:
    line = "graphut train algorithmic-copy --out RUN --preset small --no-adaptive --max-steps 1"
    values = options_of(line)
    found = Setup.of("algorithmic-copy", values)
    assert (found.preset, found.options) == ("fixed", {"max_steps": 1})
