"""Download from and upload to the Hugging Face hub, and model cards."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from graphut._version import __version__
from graphut.models.config import ModelConfig
from graphut.models.model_files import CONFIG, WEIGHTS

if TYPE_CHECKING:
    from huggingface_hub import HfApi
    from torch import nn

_REPOSITORY = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def model_folder(name: str | Path, revision: str | None = None) -> Path:
    """Return the folder `name`, or the folder into which the hub's repository `name` is loaded."""
    folder = Path(name)
    if folder.exists() or not _REPOSITORY.fullmatch(str(name)):
        if revision is not None:
            place = f"the folder {name}" if folder.exists() else name
            raise ValueError(
                f"revision={revision!r} is for a repository on the Hugging Face hub, such as "
                f"'name/repo'; got {place}"
            )
        return folder
    at = "" if revision is None else f" at revision {revision!r}"
    with _hub_client(
        f"there is no folder {name}, and no {name} on the Hugging Face hub{at}"
    ) as hub:
        files = [CONFIG, WEIGHTS]
        folder = Path(hub.snapshot_download(str(name), revision=revision, allow_patterns=files))
    for file in files:
        if not (folder / file).is_file():
            raise ValueError(f"{name} on the Hugging Face hub is not a model: it has no {file}")
    return folder


def push_folder(
    folder: str | Path,
    repository: str,
    files: Sequence[str],
    *,
    private: bool | None,
    message: str,
    keep: Sequence[str] = (),
) -> str:
    """Upload files to a repository, which is created if need be, and return its URL.

    Files of the repository that are named in `keep` are not replaced.
    """
    with _hub_client(f"cannot upload to {repository} on the Hugging Face hub") as hub:
        address = hub.create_repo(repository, private=private, exist_ok=True)
        new = [name for name in files if name not in keep or not hub.file_exists(repository, name)]
        hub.upload_folder(
            repo_id=repository, folder_path=folder, allow_patterns=new, commit_message=message
        )
    return str(address)


def check_repository(name: str) -> None:
    """Raise `OSError` for an invalid name, and `ImportError` without huggingface_hub."""
    with _hub_client(f"cannot upload to {name} on the Hugging Face hub"):
        from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

        validate_repo_id(name)


@contextmanager
def _hub_client(problem: str) -> Iterator[HfApi]:
    """Context manager that yields a hub client; errors become `OSError`s: `problem`, details."""
    try:
        from huggingface_hub import HfApi
        from huggingface_hub.errors import RepositoryNotFoundError
    except ImportError:
        raise ImportError(f"{problem}: for the hub, pip install huggingface_hub") from None
    try:
        yield HfApi(library_name="graphut", library_version=__version__)
    except RepositoryNotFoundError as error:
        advice = "check the name, and log in if it is private (hf auth login)"
        raise OSError(f"{problem}: {advice}") from error
    except Exception as error:  # errors of its HTTP client have no common base class
        raise OSError(f"{problem}: {' '.join(str(error).split())}") from error


CARD = "README.md"

_CARD = """---
library_name: graphut
{license}tags:
- universal-transformer
- adaptive-computation-time
---

# {name}

A `{kind}` of graphut with {weights:,} weights.

```python
import graphut

model = graphut.load("{name}")
```

Loading from the hub needs `pip install huggingface_hub`.
{about}
## Configuration

{options}; all other options have their default values.
"""


def model_card(
    name: str, model: nn.Module, config: ModelConfig, *, about: str = "", license: str | None = None
) -> str:
    """Return a model card in Markdown; `about` is the Markdown of further sections."""
    values = {field: getattr(config, field.name) for field in fields(config)}
    changed = [f"`{f.name}={value}`" for f, value in values.items() if value != f.default]
    return _CARD.format(
        license="" if license is None else f"license: {license}\n",
        name=name,
        kind=type(model).__name__,
        weights=sum(parameter.numel() for parameter in model.parameters()),
        about=about,
        options=", ".join(changed),
    )
