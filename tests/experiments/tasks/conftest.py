import tarfile
from pathlib import Path
from typing import Any

import pytest


def unpacked(archive: str, content: str) -> Any:
    """Make a fixture that unpacks an archive of the shared data and returns a path in it."""

    @pytest.fixture(scope="session")
    def path(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("unpacked")
        with tarfile.open(shared_data / archive) as members:
            # Python 3.11.3 and older have no filters.
            members.extraction_filter = getattr(tarfile, "data_filter", None)
            members.extractall(folder)
        return folder / content

    return path


multi30k_folder = unpacked("multi30k/multi30k-task1-en-de.tar.xz", "multi30k-task1")
shakespeare = unpacked("text/tinyshakespeare.tar.xz", "tinyshakespeare/input.txt")
