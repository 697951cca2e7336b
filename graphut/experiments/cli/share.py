"""`graphut share`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from graphut._files import write_atomically
from graphut.experiments.cli.options import Parser
from graphut.experiments.records.card import run_card
from graphut.experiments.training import Run
from graphut.experiments.training.run_files import CHECKPOINT, own_files
from graphut.models.hub import CARD, push_folder


def main(argv: Sequence[str]) -> int:
    """Write the model card of a run, and upload the run if a repository is named."""
    arguments = _parser().parse_args(argv)
    run, repository = Run.open(arguments.folder), arguments.repository
    card = run.folder / CARD
    if card.exists():
        print(f"{card} stays as it is: remove it to have it written anew")
    else:
        text = run_card(run, repository or Path(arguments.folder).as_posix(), arguments.license)
        write_atomically(card, text.encode())
        print(card)
    if repository is not None:
        files = [*sorted(own_files(run.folder) - {CHECKPOINT}), "evaluation-*.json", CARD]
        how = {"private": arguments.private, "message": f"Add a run of the task {run.task_name}"}
        print(push_folder(run.folder, repository, files, **how))
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="graphut share",
        description="Write the model card of a run into its folder, README.md: task, results, "
        "options, and how to make it again. With a repository, upload the card and all of the run "
        "but its checkpoint to the Hugging Face hub; run.json has the paths of your data in it.",
    )
    option = parser.add_argument
    option("folder", metavar="FOLDER", help="the folder of a run")
    option("repository", nargs="?", metavar="REPO", help="upload it: a name such as name/repo")
    help = "only you may see a new repository"
    option("--private", action="store_true", default=None, help=help)
    option("--license", metavar="NAME", help="of the model, such as mit")
    return parser
