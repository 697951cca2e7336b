"""The folder of a training run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphut._files import read_json, reraise_for_file, write_json
from graphut._torch import torch
from graphut._version import __version__
from graphut.experiments.messages import flag, import_module_of_user
from graphut.experiments.tasks import TASKS, GraphTask, PairTask, Task, TextTask, Vocabulary
from graphut.experiments.training.config import TrainingConfig
from graphut.experiments.training.run_files import RUN, check_is_new, is_run
from graphut.models.config import ModelConfig
from graphut.models.model_files import CONFIG, check_is_trained, read_config, read_vocabularies

if TYPE_CHECKING:
    from graphut.experiments.training.learners import AnyLearner
    from graphut.models.adaptive_model import AdaptiveModel


@dataclass(frozen=True)
class SavedModel:
    """A model in a folder, as `save_pretrained` writes it."""

    folder: Path

    @property
    def kind(self) -> type[Task]:
        """The kind of task that the model is for."""
        kinds = {"UniversalTransformer": PairTask, "UniversalTransformerLM": TextTask}
        kinds |= {"UniversalGraphTransformer": GraphTask}
        if (name := read_config(self.folder)[0]) not in kinds:
            raise ValueError(f"{self.folder} contains {name!r}; known are {', '.join(kinds)}")
        return kinds[name]

    @property
    def learner_kind(self) -> type[AnyLearner]:
        """The class of the learner, which trains and evaluates the models of its kind."""
        from graphut.experiments.training.learners import learner_of

        return learner_of(self.kind)

    @property
    def config(self) -> ModelConfig:
        """Return the configuration of the model, without reading its weights."""
        _, values = read_config(self.folder)
        with reraise_for_file(self.folder / CONFIG, ""):
            return self.kind.config_kind(**values)

    def model(self) -> AdaptiveModel:
        """Return the best model so far, on the CPU; before the first epoch, the initial model."""
        return self.learner_kind.model_kind.from_pretrained(self.folder)

    def trained_model(self, device: torch.device) -> AdaptiveModel:
        """Return the best model so far on a device; raise `ValueError` before the first epoch."""
        check_is_trained(self.folder)
        return self.model().to(device)

    def learner(self, model: AdaptiveModel) -> AnyLearner:
        """Return the learner of a model from this folder."""
        return self.learner_kind(model, model.vocabularies)

    @cached_property
    def vocabularies(self) -> dict[str, Vocabulary]:
        """Return the vocabularies of the model."""
        return read_vocabularies(self.folder)


@dataclass(frozen=True)
class Run(SavedModel):
    """The description of a training run in a folder: task, data and training options.

    The folder also contains the best model so far, as `save_pretrained` writes it. A `Trainer` adds
    a checkpoint and the metrics.
    """

    task_name: str  # a key of `TASKS`: a name, or a file, relative to the current folder
    task_options: dict[str, Any]  # the fields of the task
    training: TrainingConfig
    version: str  # version of graphut that began the run
    digests: dict[str, str]  # SHA-256 of the data, by the names of the task's paths
    imports: tuple[str, ...] = ()  # modules with the user's own tasks, topologies or rules
    machine: dict[str, Any] = field(default_factory=dict)  # that trained it: `describe_machine`

    @classmethod
    def create(
        cls,
        folder: str | Path,
        task: Task,
        training: TrainingConfig,
        model: AdaptiveModel,
        imports: Sequence[str] = (),
        task_name: str | None = None,
    ) -> Run:
        """Write a new run; raise `FileExistsError` if the folder contains one with an epoch.

        `task_name` is the key of the task in `TASKS`, if it differs from the name of the task.
        """
        folder = Path(folder)
        check_is_new(folder)
        model.vocabularies = {**task.vocabularies}
        model.save_pretrained(folder)
        return cls(
            folder=folder,
            task_name=task_name or task.name,
            task_options=asdict(task),
            training=training,
            version=__version__,
            digests=_digests(task),
            imports=tuple(imports),
        ).write()

    @classmethod
    def open(cls, folder: str | Path) -> Run:
        """Read the run in a folder.

        This imports the modules of `--import`, and runs the file of a task. Raise
        `FileNotFoundError` if there is no run, or no such file, and `ValueError` if `run.json` is
        damaged or incompatible with this version.
        """
        if not is_run(folder):
            saved = "; graphut generate and predict read its model" * Path(folder, CONFIG).is_file()
            raise FileNotFoundError(f"there is no run in {folder}: it has no {RUN}{saved}")
        path = Path(folder, RUN)
        state = read_json(path)
        with reraise_for_file(path, "does not describe a run of this version"):
            name, imports = str(state["task"]), tuple(map(str, state["imports"]))
        for module in imports:
            import_module_of_user(module)
        if name not in TASKS:
            raise ValueError(f"{path}: unknown task {name!r}: add --import and its module")
        with reraise_for_file(path, "does not describe a run of this version"):
            given = state["task_options"].items()  # JSON has no tuples
            options = {name: tuple(x) if isinstance(x, list) else x for name, x in given}
            return cls(
                Path(folder),
                name,
                asdict(TASKS[name](**options)),
                TrainingConfig(**state["training"]),
                str(state["graphut"]),
                dict(state["digests"]),
                imports,
                dict(state.get("machine", {})),
            )

    def write(self) -> Run:
        """Write `run.json`, and return this run."""
        description = {
            "graphut": self.version,
            "task": self.task_name,
            "task_options": self.task_options,
            "training": asdict(self.training),
            "digests": self.digests,
            "imports": self.imports,
            "machine": self.machine,
        }
        write_json(self.folder / RUN, description)
        return self

    @property
    def options(self) -> dict[str, Any]:
        """Return the values of all options: of the task, of the training and of the model."""
        from_data = self.kind.from_data
        model = {name: x for name, x in vars(self.config).items() if name not in from_data}
        return {**self.task_options, **asdict(self.training), **model}

    def task(self, *, check_data: bool = True) -> Task:
        """Return the task; with `check_data`, check that its data has not changed.

        Raise `FileNotFoundError` if a file is missing, and `ValueError` if the data has changed.
        """
        task = self.kind(**self.task_options)
        if not check_data:
            return task
        begun = f"the run in {self.folder} began: restore the data, or begin another run"
        for option, path in task.paths.items():
            if not Path(path).exists():
                run = shlex.quote(str(self.folder))
                own = f"evaluate with graphut eval {run} --data PATH, " * bool(Path(path).suffix)
                raise FileNotFoundError(
                    f"{path}, the data of the run in {self.folder}, does not exist: restore it, "
                    f"{own}or give its new path: graphut train {self.task_name} --resume "
                    f"{flag(option)} PATH --out {run}"
                )
        for name, digest in _digests(task).items():
            if digest != self.digests.get(name):
                path, first = task.paths[name], Run.open(self.folder).task_options.get(name)
                differs = "has changed since" if path == first else f"is not {first}, with which"
                raise ValueError(f"{path} {differs} {begun}")
        if dict(task.vocabularies) != self.vocabularies:
            raise ValueError(
                f"the vocabulary of the task {self.task_name} differs from the run in "
                f"{self.folder}: the data or graphut has changed; begin another run"
            )
        return task

    @property
    def kind(self) -> type[Task]:
        return TASKS[self.task_name]


def open_model(folder: str | Path) -> SavedModel:
    """Return the run in a folder, or else the model that `save_pretrained` has written there."""
    return Run.open(folder) if is_run(folder) else SavedModel(Path(folder))


def _digests(task: Task) -> dict[str, str]:
    """Return the checksums, in hexadecimal, of the files or folders that the options name.

    The checksum of a folder is of the files directly in it.
    """
    digests = {}
    for name, path in task.paths.items():
        files = sorted(Path(path).iterdir()) if Path(path).is_dir() else [Path(path)]
        digest = sha256()
        for file in filter(Path.is_file, files):
            digest.update(sha256(file.read_bytes()).digest())
        digests[name] = digest.hexdigest()
    return digests
