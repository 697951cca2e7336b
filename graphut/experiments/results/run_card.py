"""The model card of a run: what was learned, how well, and how to do it again."""

from __future__ import annotations

from graphut.experiments.machine import machine_name
from graphut.experiments.results.run_record import RunRecord
from graphut.experiments.results.run_setup import DATA, judged_on
from graphut.experiments.tables import markdown_table, three_digits
from graphut.experiments.tasks import TASKS
from graphut.experiments.training import Run, learner_of
from graphut.experiments.wording import meaning_of
from graphut.models.hub import model_card

_ABOUT = """
It has learned the task `{task}`. {meaning}

With the whole folder (`hf download` brings it from the hub) `graphut info`, `graphut eval` and
`graphut generate` work too. In Python, `Run.open(folder)` of `graphut.experiments.training` has the
`task()`, the `model()` and the `vocabularies`.

## Results

{results}

{metrics}

The model is that of {chosen}; all of them
are {updates:,} updates, and took {minutes} minutes on {machine}.

## Make it again

```sh
{commands}
```

{data}It was made with {versions}.
"""


def run_card(run: Run, name: str, license: str | None = None) -> str:
    """Return the model card of a run, made of its record.

    `name` is the repository or the folder by which it is loaded. Raise `ValueError` if no epoch of
    the run is done, or its model was not judged on a test set.
    """
    record, model = RunRecord.of(run.folder), run.model()
    machines = record.machines
    versions = {key: value for machine in machines for key, value in machine.items()}
    packages = [key for key in versions if key not in ("cpu", "gpu", "threads")]
    needs_data = any(DATA in command for command in record.commands)
    about = _ABOUT.format(
        task=record.task,
        meaning=meaning_of(TASKS[record.task]),
        results=_results(record),
        metrics="\n".join(
            f"- {metric}: {meaning}" for metric, meaning in run.learner.metric_meanings.items()
        ),
        chosen=record.chosen,
        updates=record.updates,
        minutes=three_digits(record.seconds / 60),
        machine=machine_name(machines),
        commands="\n".join(record.commands),
        data=f"`{DATA}` stands for the folder of your copy of the data. " if needs_data else "",
        versions=", ".join(f"{key} {versions[key]}" for key in packages if versions[key]),
    )
    return model_card(name, model, model.config, about=about, license=license)


def _results(record: RunRecord) -> str:
    metrics = list(learner_of(TASKS[record.task]).metric_meanings)
    rows = [
        [
            judged_on(name, found),
            str(found["examples"]),
            *(str(found[metric]) for metric in metrics),
        ]
        for name, found in record.evaluations.items()
    ]
    return markdown_table(["test set", "examples", *metrics], rows)
