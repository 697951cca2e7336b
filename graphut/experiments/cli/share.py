"""`graphut share`: write a model card, and upload a run."""

from argparse import Namespace
from pathlib import Path

from graphut._files import write_atomically
from graphut.experiments.records.card import run_card
from graphut.experiments.training.run_files import CHECKPOINT, own_files
from graphut.models.hub import CARD, push_folder


def main(arguments: Namespace) -> int:
    """Write the model card of a run; if a repository is given, upload card and run."""
    run, repository = arguments.run, arguments.repository
    card = run.folder / CARD
    if card.exists():
        print(f"{card} is kept: remove it to write a new one")
    else:
        text = run_card(run, repository or Path(arguments.folder).as_posix(), arguments.license)
        write_atomically(card, text.encode())
        print(card)
    if repository is not None:
        files = [*sorted(own_files(run.folder) - {CHECKPOINT}), "evaluation-*.json", CARD]
        message = f"Add a run of the task {run.task_name}"
        private = arguments.private
        print(push_folder(run.folder, repository, files, private=private, message=message))
    return 0
