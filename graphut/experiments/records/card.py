"""The model card of a training run: its task, its metrics and the commands that repeat it."""

from graphut.experiments.messages import meaning_of
from graphut.experiments.records.record import DATA, RunRecord
from graphut.experiments.tables import NOT_MEASURED, markdown_table, three_digits
from graphut.experiments.tasks import TASKS
from graphut.experiments.training import Run
from graphut.models.hub import model_card

_ABOUT = """
It was trained on the task `{task}`. {meaning}

`graphut info`, `graphut eval` and `graphut generate` need the whole folder, which `hf download`
copies from the hub. In Python, `graphut.experiments.training.Run.open(folder)` has the methods
`task()` and `model()`.

## Results

{results}

{metrics}

The model is from {chosen}. Training took {updates:,} updates and {minutes} minutes
on {machine}.

## Repeat the run

```sh
{commands}
```

{data}It was made with {versions}.
"""


def run_card(run: Run, name: str, license: str | None = None) -> str:
    """Return the model card of a training run, in Markdown; `name` is its repository or folder.

    Raise `ValueError` if no epoch is complete, or if the model was not evaluated.
    """
    record, model = RunRecord.of(run), run.model()
    machines = record.machines
    versions = {key: value for machine in machines for key, value in machine.items()}
    names = [key for key in versions if key not in ("cpu", "gpu", "threads") and versions[key]]
    needs_data = any(DATA in command for command in record.commands)
    about = _ABOUT.format(
        task=run.task_name,
        meaning=meaning_of(TASKS[run.task_name]),
        results=markdown_table(
            ["test set", "examples", *record.metrics],
            [[NOT_MEASURED if x is None else str(x) for x in row] for row in record.results],
        ),
        metrics="\n".join(f"- {metric}: {meaning}" for metric, meaning in record.metrics.items()),
        chosen=record.chosen,
        updates=record.updates,
        minutes=three_digits(record.seconds / 60),
        machine="; ".join(dict.fromkeys(m["gpu"] or m["cpu"] for m in machines)),
        commands="\n".join(record.commands),
        data=f"`{DATA}` is the folder of your copy of the data. " if needs_data else "",
        versions=", ".join(f"{key} {versions[key]}" for key in names),
    )
    return model_card(name, model, model.config, about=about, license=license)
