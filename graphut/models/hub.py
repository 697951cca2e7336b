"""Models on the Hugging Face hub, where their names are such as `name/repo`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from graphut._version import __version__
from graphut.models.pretrained import CONFIG, WEIGHTS

if TYPE_CHECKING:
    from huggingface_hub import HfApi

_REPOSITORY = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def model_folder(name: str | Path, revision: str | None = None) -> Path:
    """Return the folder of that name; if there is none, download the repository of that name.

    Of a repository only the configuration and the weights are taken, at a branch, a tag or a
    commit. The hub's own cache keeps them, and is used where there is no network.

    Raises
    ------
    ImportError
        If there is no such folder, and `huggingface_hub` is not installed.
    OSError
        If there is no such repository or revision, or the hub cannot be reached.
    ValueError
        If a revision is asked of a folder, or the repository has no model of graphut.
    """
    folder = Path(name)
    if folder.exists() or not _REPOSITORY.fullmatch(str(name)):
        if revision is not None:
            raise ValueError(
                f"revision={revision!r} is for a repository of the hub, such as name/repo, and not "
                f"for the folder {name}"
            )
        return folder
    at = "" if revision is None else f" at revision {revision!r}"
    with _asking_for(f"there is no folder {name}, and no {name} on the Hugging Face hub{at}"):
        found = Path(
            _hub(f"there is no folder {name}").snapshot_download(
                str(name), revision=revision, allow_patterns=[CONFIG, WEIGHTS]
            )
        )
    for file in (CONFIG, WEIGHTS):
        if not (found / file).is_file():
            raise ValueError(f"{name} on the Hugging Face hub is not a model: it has no {file}")
    return found


def push_folder(
    folder: str | Path,
    repository: str,
    files: Sequence[str],
    *,
    private: bool | None,
    commit_message: str,
    keep: Sequence[str] = (),
) -> str:
    """Put files of a folder into a repository of the hub, and return its address.

    The repository is made if it is not there: a public one, unless `private` is true. Files named
    in `keep` stay as they are where the repository has them.
    """
    with _asking_for(f"cannot upload to {repository} on the Hugging Face hub"):
        hub = _hub(f"cannot upload to {repository}")
        address = hub.create_repo(repository, private=private, exist_ok=True)
        new = [name for name in files if name not in keep or not hub.file_exists(repository, name)]
        hub.upload_folder(
            repo_id=repository,
            folder_path=folder,
            allow_patterns=new,
            commit_message=commit_message,
        )
    return str(address)


def _hub(problem: str) -> HfApi:
    try:
        from huggingface_hub import HfApi
    except ImportError:
        raise ImportError(
            f"{problem}; to use the Hugging Face hub: pip install 'graphut[hub]'"
        ) from None
    return HfApi(library_name="graphut", library_version=__version__)


@contextmanager
def _asking_for(problem: str) -> Iterator[None]:
    """Raise `OSError`, which begins with the problem, for any error of the hub or on the way."""
    try:
        yield
    except ImportError:
        raise
    except Exception as error:  # those of the HTTP client have no base in common with others
        raise OSError(f"{problem}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    from huggingface_hub.errors import RepositoryNotFoundError

    if isinstance(error, RepositoryNotFoundError):
        return "check the name, and log in if it is private (hf auth login)"
    return " ".join(str(error).split())
