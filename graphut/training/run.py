"""The folder of a run, from which it can be resumed and its model be used."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from graphut._files import read_json, write_json
from graphut._version import __version__
from graphut.models import UniversalTransformer
from graphut.tasks import TASKS, Task, Vocabulary
from graphut.training.config import TrainingConfig

RUN = "run.json"
SOURCE_VOCABULARY = "source_vocabulary.json"
TARGET_VOCABULARY = "target_vocabulary.json"


@dataclass(frozen=True)
class Run:
    """What a run's folder says of it; `Run.create` makes one, `Run.open` reads it.

    The folder is also that of a pretrained model, the best of the run so far; a `Trainer`
    on the same folder adds a checkpoint and the metrics.

    Parameters
    ----------
    folder : Path
        The folder.
    task_name : str
        A key of `TASKS`.
    task_options : dict
        The fields of the task.
    training : TrainingConfig
        How it is trained.
    version : str
        The graphut that began it.
    """

    folder: Path
    task_name: str
    task_options: dict[str, Any]
    training: TrainingConfig
    version: str

    @classmethod
    def create(
        cls, folder: str | Path, task: Task, training: TrainingConfig, model: UniversalTransformer
    ) -> Run:
        """Write the folder of a new run.

        Raises
        ------
        FileExistsError
            If there is a run in the folder already.
        """
        run = cls(Path(folder), task.name, asdict(task), training, __version__)
        if is_run(folder):
            raise FileExistsError(f"there is a run in {folder} already")
        run.folder.mkdir(parents=True, exist_ok=True)
        task.source_vocabulary.save(run.folder / SOURCE_VOCABULARY)
        task.target_vocabulary.save(run.folder / TARGET_VOCABULARY)
        model.save_pretrained(run.folder)
        # Last, since it is what makes the folder a run.
        write_json(run.folder / RUN, run._to_dict())
        return run

    @classmethod
    def open(cls, folder: str | Path) -> Run:
        """Read the folder of a run.

        Raises
        ------
        FileNotFoundError
            If there is no run in the folder.
        ValueError
            If its description is broken, or of another version of graphut.
        """
        if not is_run(folder):
            raise FileNotFoundError(f"there is no run in {folder}: it has no {RUN}")
        path = Path(folder, RUN)
        state = read_json(path)
        try:
            name, options, version = state["task"], state["task_options"], state["graphut"]
            TASKS[name](**options)
            return cls(Path(folder), name, options, TrainingConfig(**state["training"]), version)
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path} does not describe a run of this version: {error!r}") from None

    def task(self) -> Task:
        """The task that the run is about.

        Raises
        ------
        ValueError
            If its data has other symbols now than when the run began.
        """
        task = TASKS[self.task_name](**self.task_options)
        now = (task.source_vocabulary, task.target_vocabulary)
        if now != (self.source_vocabulary, self.target_vocabulary):
            raise ValueError(f"the data of {self.folder} has changed since: its symbols are others")
        return task

    def model(self) -> UniversalTransformer:
        """The best model so far, on the CPU."""
        return UniversalTransformer.from_pretrained(self.folder)

    @property
    def source_vocabulary(self) -> Vocabulary:
        """Symbols of the sources."""
        return Vocabulary.load(self.folder / SOURCE_VOCABULARY)

    @property
    def target_vocabulary(self) -> Vocabulary:
        """Symbols of the targets."""
        return Vocabulary.load(self.folder / TARGET_VOCABULARY)

    def _to_dict(self) -> dict[str, Any]:
        return {
            "graphut": self.version,
            "task": self.task_name,
            "task_options": self.task_options,
            "training": asdict(self.training),
        }


def is_run(folder: str | Path) -> bool:
    """Whether there is a run in a folder."""
    return Path(folder, RUN).is_file()
